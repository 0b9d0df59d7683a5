"""Another planet: a factor on gravity for each task."""

from typing import Any

import numpy as np

from .base import shifts
from .physics import PhysicsFactor


@shifts.register("gravity")
class Gravity(PhysicsFactor):
    """Multiply MuJoCo's gravity by a factor, log-uniform in [low, high] for each task.

    Args:
        low: The smallest factor, above 0.
        high: The largest factor.
        over: Steps over which the change is gradual (see `Shift`).
        from_task: The first task that is shifted.
    """

    def __init__(self, low: float = 0.5, high: float = 2.0, *, over: int = 0, from_task: int = 1) -> None:
        super().__init__(low, high, over, from_task)

    def part(self, model: Any) -> np.ndarray:
        return model.opt.gravity
