"""A slippery ground: friction is drawn for each task, as in Slippery Ant (Dohare et al. 2024, arXiv 2306.13812)."""

from typing import Any

import numpy as np

from .base import shifts
from .physics import PhysicsFactor


@shifts.register("friction")
class Friction(PhysicsFactor):
    """Multiply the sliding friction of every MuJoCo geom by one factor, log-uniform in [low, high] for each task.

    The defaults are the coefficients of Dohare et al. for Ant, whose original coefficient is 1. Torsional and rolling
    friction do not change.

    Args:
        low: The smallest factor, above 0.
        high: The largest factor.
        over: Steps over which the change is gradual (see `Shift`).
        from_task: The first task that is shifted.
    """

    def __init__(self, low: float = 0.02, high: float = 2.0, *, over: int = 0, from_task: int = 1) -> None:
        super().__init__(low, high, over=over, from_task=from_task)

    def part(self, model: Any) -> np.ndarray:
        return model.geom_friction[:, 0]
