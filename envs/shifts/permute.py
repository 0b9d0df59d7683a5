"""Permuted observations: the same entries in another order, as in permuted MNIST."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary

from .base import RowMap, Shift, Values, expand, shifts
from .drawing import draw_permutation


@shifts.register("permute")
class Permute(Shift):
    """Permute the entries of the observation, in an order that differs from the previous task's.

    For Discrete observations, the numbers themselves are permuted. Images are not supported. In the observation space,
    all entries have the widest bounds, because an entry may move to any place.
    """

    takes_rows = True

    gradual = "episodes"

    def check(self, env: gym.Env) -> None:
        space = env.observation_space
        image = isinstance(space, Box) and len(space.shape) > (1 if space.dtype == np.uint8 else 2)
        plain = isinstance(space, Box | Discrete | MultiBinary) and not image
        self.require(plain, "vector or Discrete observations", env, space)
        self.require(_size(space) > 1, "at least two entries to permute", env, space)

    def neutral(self, env: gym.Env) -> Values:
        return {"order": np.arange(_size(env.observation_space))}

    def draw(self, env: gym.Env, random: np.random.Generator, previous: Values) -> Values:
        return {"order": draw_permutation(random, previous["order"])}

    def set(self, env: gym.Env, values: Values) -> None:
        space, order = env.observation_space, values["order"]
        self._start = int(space.start) if isinstance(space, Discrete) else None
        # one order, or one row for each copy
        self._order = order if isinstance(space, Discrete) else order.reshape(*order.shape[:-1], *(space.shape or ()))

    def observation(self, observation: Any) -> Any:
        if self._start is None:
            return observation.take(self._order)
        return self._order[observation - self._start] + self._start

    def observations(self, observations: np.ndarray) -> np.ndarray:
        rows = np.arange(len(observations))
        if self._start is None:
            entries = observations.reshape(len(rows), -1)
            return entries[expand(rows, self._order.ndim), self._order]
        return self._order[rows, observations - self._start] + self._start

    def row_map(self) -> RowMap | None:
        if self._start:
            return None
        return RowMap("take" if self._start is None else "renumber cell", self._order)

    def space(self, observation_space: gym.Space) -> gym.Space:
        if not isinstance(observation_space, Box):
            return observation_space
        space = observation_space
        low, high = (np.full(space.shape, end, space.dtype) for end in (space.low.min(), space.high.max()))
        return Box(low, high, dtype=space.dtype.type)


def _size(space: gym.Space) -> int:
    return int(space.n) if isinstance(space, Discrete) else int(np.prod(space.shape or ()))
