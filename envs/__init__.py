"""Environments: tasks by name, guarded against exploding physics, stepped together, in sequences."""

from .guard import ClipActions, Guard
from .make import environment_names, has_friction, make_env, resolve_env
from .sequence import SEQUENCES, Task, parse_sequence, task_at, task_stream
from .vector import Episode, StepResult, Vector

__all__ = [
    "SEQUENCES",
    "ClipActions",
    "Episode",
    "Guard",
    "StepResult",
    "Task",
    "Vector",
    "environment_names",
    "has_friction",
    "make_env",
    "parse_sequence",
    "resolve_env",
    "task_at",
    "task_stream",
]
