"""A constant offset on observations: the levels of Continual Gym Control (TRAC, Muppidi et al. 2024, arXiv 2405.16642).

o ← o + b,   b ~ N(0, scale²) for each entry of the observation
"""

import gymnasium as gym
import numpy as np

from .base import RealValued, RowMap, Values, shifts
from .drawing import check_scale


@shifts.register("offset")
class Offset(RealValued):
    """Add a constant to each entry of the observation: o + b, b ~ N(0, scale²) for each task.

    Args:
        scale: The standard deviation, in the environment's units. TRAC uses 2, and also no offset in the first task.
        over: Steps over which the change is gradual (see `Shift`).
        from_task: The first task that is shifted.
    """

    takes_rows = True

    def __init__(self, scale: float = 2.0, *, over: int = 0, from_task: int = 1) -> None:
        super().__init__(over=over, from_task=from_task)
        self.scale = check_scale(scale)

    def neutral(self, env: gym.Env) -> Values:
        return {"offset": np.zeros(env.observation_space.shape)}

    def draw(self, env: gym.Env, random: np.random.Generator, previous: Values) -> Values:
        return {"offset": random.normal(0.0, self.scale, env.observation_space.shape)}

    def set(self, env: gym.Env, values: Values) -> None:
        self._offset = values["offset"].astype(env.observation_space.dtype)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return observation + self._offset

    def row_map(self) -> RowMap:
        return RowMap("add", self._offset)
