"""Rescaled observations: o ← f · o with a factor for each entry, as if sensors had been replaced."""

import gymnasium as gym
import numpy as np

from .base import RealValued, RowMap, Values, shifts
from .drawing import check_range, log_uniform


@shifts.register("rescale")
class Rescale(RealValued):
    """Multiply each entry of the observation by a factor, log-uniform in [low, high] for each task.

    Args:
        low: The smallest factor, above 0.
        high: The largest factor.
        over: Steps over which the change is gradual (see `Shift`).
        from_task: The first task that is shifted.
    """

    takes_rows = True

    def __init__(self, low: float = 0.5, high: float = 2.0, *, over: int = 0, from_task: int = 1) -> None:
        super().__init__(over=over, from_task=from_task)
        self.low, self.high = check_range(low, high)

    def neutral(self, env: gym.Env) -> Values:
        return {"factor": np.ones(env.observation_space.shape or ())}

    def draw(self, env: gym.Env, random: np.random.Generator, previous: Values) -> Values:
        return {"factor": log_uniform(random, self.low, self.high, env.observation_space.shape)}

    def set(self, env: gym.Env, values: Values) -> None:
        self._factor = values["factor"].astype(env.observation_space.dtype)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return observation * self._factor

    def row_map(self) -> RowMap:
        return RowMap("multiply", self._factor)
