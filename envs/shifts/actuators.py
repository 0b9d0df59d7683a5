"""Weaker or stronger motors: a factor on the strength of each actuator for each task."""

from typing import Any

import numpy as np

from .base import shifts
from .physics import PhysicsFactor


@shifts.register("actuators")
class Actuators(PhysicsFactor):
    """Multiply the gear of each MuJoCo actuator by its own factor, log-uniform in [low, high] for each task.

    A motor's force is its control times its gear.

    Args:
        low: The smallest factor, above 0.
        high: The largest factor.
        over: Steps over which the change is gradual (see `Shift`).
        from_task: The first task that is shifted.
    """

    def __init__(self, low: float = 0.5, high: float = 1.5, *, over: int = 0, from_task: int = 1) -> None:
        super().__init__(low, high, over=over, from_task=from_task)

    def part(self, model: Any) -> np.ndarray:
        return model.actuator_gear.T  # six numbers per actuator, three forces and three torques: (6, actuators)

    def shape(self, model: Any) -> tuple[int, ...]:
        return (model.nu,)
