"""Gaussian noise on observations, with a standard deviation for each entry and task."""

from collections.abc import Sequence

import gymnasium as gym
import numpy as np

from .base import RealValued, Values, shifts
from .drawing import check_scale


@shifts.register("noise")
class Noise(RealValued):
    """Add new noise to every observation: o + σ·ε, ε ~ N(0, 1), σ uniform in [0, scale] for each entry and task.

    Args:
        scale: The largest standard deviation, in the environment's units.
        over: Steps over which the change is gradual (see `Shift`).
        from_task: The first task that is shifted.
    """

    takes_rows = True

    def __init__(self, scale: float = 0.1, *, over: int = 0, from_task: int = 1) -> None:
        super().__init__(over=over, from_task=from_task)
        self.scale = check_scale(scale)

    def neutral(self, env: gym.Env) -> Values:
        return {"deviation": np.zeros(env.observation_space.shape or ())}

    def draw(self, env: gym.Env, random: np.random.Generator, previous: Values) -> Values:
        return {"deviation": random.uniform(0.0, self.scale, env.observation_space.shape)}

    def set(self, env: gym.Env, values: Values) -> None:
        self._deviation = values["deviation"]

    def begin_episode(self, random: np.random.Generator) -> None:
        self._random = random

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return self._add(self._random.standard_normal(self._deviation.shape), observation)

    def begin_episodes(self, randoms: Sequence[np.random.Generator]) -> None:
        self._randoms = randoms

    def observations(self, observations: np.ndarray) -> np.ndarray:
        shape = self._deviation.shape[1:]
        return self._add(np.stack([random.standard_normal(shape) for random in self._randoms]), observations)

    def _add(self, noise: np.ndarray, observation: np.ndarray) -> np.ndarray:
        return observation + (self._deviation * noise).astype(observation.dtype)
