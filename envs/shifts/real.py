"""The base class of shifts of real-valued observations."""

import gymnasium as gym
import numpy as np

from supple.envs.fault import text_of

from .base import Shift, name_of


class RealValued(Shift):
    """A shift of real-valued observations, after which they have no bounds."""

    def check(self, env: gym.Env) -> None:
        space = env.observation_space
        if not (isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating)):
            raise ValueError(f"{self.name} needs observations of real numbers, but {name_of(env)} has {text_of(space)}")

    def space(self, observation_space: gym.Space) -> gym.Space:
        dtype: type[np.floating] = observation_space.dtype.type  # type: ignore[union-attr]
        return gym.spaces.Box(-np.inf, np.inf, observation_space.shape, dtype)
