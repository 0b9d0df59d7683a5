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

    def part(self, model: Any) -> np.ndarray:
        return model.opt.gravity
