"""Permuted observations: the same numbers in another order, as in permuted MNIST."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary

from .base import Shift, Values, name_of, shifts
from .drawing import another_permutation


@shifts.register("permute")
class Permute(Shift):
    """Show the observation's numbers in another order, never that of the task before.

    Of a numbered observation (Discrete) the numbers themselves are exchanged. Images are refused.
    The space has the widest of all bounds for every number, since any may stand anywhere.
    """

    gradual = "episodes"

    def check(self, env: gym.Env) -> None:
        space = env.observation_space
        image = isinstance(space, Box) and space.dtype == np.uint8 and len(space.shape) > 1
        if image or not isinstance(space, Box | Discrete | MultiBinary):
            raise ValueError(f"permute needs a vector or a number to observe; {name_of(env)} shows {space}")
        if _size(space) < 2:
            raise ValueError(f"permute needs at least two numbers to exchange; {name_of(env)} shows {space}")

    def neutral(self, env: gym.Env) -> Values:
        return {"order": np.arange(_size(env.observation_space))}

    def draw(self, env: gym.Env, random: np.random.Generator, previous: Values) -> Values:
        return {"order": another_permutation(random, previous["order"])}

    def set(self, env: gym.Env, values: Values) -> None:
        space, order = env.observation_space, values["order"]
        self._start = int(space.start) if isinstance(space, Discrete) else None
        self._order = order if isinstance(space, Discrete) else order.reshape(space.shape)

    def observation(self, observation: Any) -> Any:
        if self._start is None:
            return observation.take(self._order)
        return self._order[observation - self._start] + self._start

    def space(self, observation_space: gym.Space) -> gym.Space:
        if not isinstance(observation_space, Box):
            return observation_space
        space = observation_space
        return Box(space.low.min(), space.high.max(), space.shape, space.dtype.type)


def _size(space: gym.Space) -> int:
    return int(space.n) if isinstance(space, Discrete) else int(np.prod(space.shape or ()))
