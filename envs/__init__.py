"""Environments: tasks by name, guarded against exploding physics, stepped together, in sequences."""

from .atari import AtariVector, make_pixels
from .flat import Flat, flat
from .guard import ClipActions, Guard
from .h1 import register_h1
from .make import environment_names, games, has_friction, make_env, resolve_env
from .repeat import Repeat
from .sequence import SEQUENCES, parse_sequence
from .vector import Envs, Episode, StepResult, Vector

register_h1()

__all__ = [
    "SEQUENCES",
    "AtariVector",
    "ClipActions",
    "Envs",
    "Episode",
    "Flat",
    "Guard",
    "Repeat",
    "StepResult",
    "Vector",
    "environment_names",
    "flat",
    "games",
    "has_friction",
    "make_env",
    "make_pixels",
    "parse_sequence",
    "resolve_env",
]
