"""Environments: made by name, guarded against explosions of physics, vectorised, in sequences, and with shifts."""

from . import h1, lake, minatar, nine_rooms  # noqa: F401 - registers them
from .arrays import ArrayVector
from .atari import AtariVector, make_pixels
from .batched import BatchedVector
from .fault import EnvironmentFault, Episode, ExplosionInfo
from .flat import Flat, flatten
from .guard import REWARD_FLOOR, ClipActions, Guard
from .make import environment_names, games, has_friction, make_env, resolve_env
from .packaged import PACKAGED, package_hint, packaged_names
from .padding import Padded, United, unite
from .pictures import Observations, Picture, find_image, picture_of
from .repeat import Repeat
from .sequence import SEQUENCES, parse_sequence
from .shifts import Shift, Shifted, Shifts, parse_shifts, shifts
from .vector import ConcatenatedVector, Envs, StepResult, Vector
from .vectorize import is_batched, vectorize
from .workers import EnvWorkers, WorkerVector

__all__ = [
    "PACKAGED",
    "REWARD_FLOOR",
    "SEQUENCES",
    "ArrayVector",
    "AtariVector",
    "BatchedVector",
    "ClipActions",
    "ConcatenatedVector",
    "EnvWorkers",
    "EnvironmentFault",
    "Envs",
    "Episode",
    "ExplosionInfo",
    "Flat",
    "Guard",
    "Observations",
    "Padded",
    "Picture",
    "Repeat",
    "Shift",
    "Shifted",
    "Shifts",
    "StepResult",
    "United",
    "Vector",
    "WorkerVector",
    "environment_names",
    "find_image",
    "flatten",
    "games",
    "has_friction",
    "is_batched",
    "make_env",
    "make_pixels",
    "package_hint",
    "packaged_names",
    "parse_sequence",
    "parse_shifts",
    "picture_of",
    "resolve_env",
    "shifts",
    "unite",
    "vectorize",
]
