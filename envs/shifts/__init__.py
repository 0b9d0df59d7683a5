"""The shifts between the tasks of a stream, one per file, and the wrapper that applies them to an environment."""

from . import (  # noqa: F401 - registers them
    actuators,
    delay,
    direction,
    flip_actions,
    friction,
    goal,
    gravity,
    mirror_map,
    mode,
    negate_reward,
    noise,
    none,
    offset,
    permute,
    permute_actions,
    rescale,
    stiffness,
)
from .base import Shift, Values, shifts
from .several import Shifts, parse_shifts
from .shifted import Shifted, find_shifted

__all__ = ["Shift", "Shifted", "Shifts", "Values", "find_shifted", "parse_shifts", "shifts"]
