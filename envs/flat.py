"""Observations as vectors, for agents whose networks only read vectors."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


def flat(env: gym.Env) -> gym.Env:
    """Return an environment with vector observations: the given one, wrapped in `Flat` if necessary.

    Raises ValueError if `Flat` does not support the observation space."""
    shown = env.observation_space
    if isinstance(shown, spaces.Box) and len(shown.shape) == 1 and np.issubdtype(shown.dtype, np.floating):
        return env
    return Flat(env)


class Flat(gym.ObservationWrapper):
    """A wrapper that returns each observation as a vector, (size,):

    Discrete(n)                  one-hot, n numbers, float32
    MultiDiscrete([n₁, n₂, …])   one-hot vectors, concatenated, Σnᵢ numbers, float32
    MultiBinary                  its zeros and ones, float32
    Box of real numbers          its numbers in C order, in its own floating type
    Box of integers, (n,)        its numbers, unscaled, float32

    Raises ValueError for other spaces: images (a Box of integers with a height and a width), Dict, Tuple, Text, ….
    """

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        shown = env.observation_space
        self._starts: NDArray[np.int64] | None = None  # the start of each one-hot part minus its smallest value
        if isinstance(shown, spaces.Discrete):
            self._size = int(shown.n)
            self._starts = np.array([-shown.start])
        elif isinstance(shown, spaces.MultiDiscrete):
            counts = shown.nvec.ravel()
            self._size = int(counts.sum())
            self._starts = np.cumsum(counts) - counts - shown.start.ravel()
        elif isinstance(shown, spaces.MultiBinary) or (isinstance(shown, spaces.Box) and not _is_image(shown)):
            self._size = int(np.prod(shown.shape))
        else:
            raise ValueError(f"observations of {shown} cannot be vectors: use a Box, Discrete or MultiBinary space")
        if isinstance(shown, spaces.Box):
            self._dtype = shown.dtype if np.issubdtype(shown.dtype, np.floating) else np.dtype(np.float32)
            low, high = (bound.ravel().astype(self._dtype) for bound in (shown.low, shown.high))
            self.observation_space = spaces.Box(low, high, dtype=self._dtype.type)
        else:
            self._dtype = np.dtype(np.float32)
            self.observation_space = spaces.Box(0, 1, (self._size,), np.float32)

    def observation(self, observation: Any) -> NDArray[np.floating]:
        """Return an observation as a vector, (size,)."""
        if self._starts is None:
            return np.asarray(observation, self._dtype).ravel()
        vector = np.zeros(self._size, self._dtype)
        vector[self._starts + np.ravel(observation)] = 1
        return vector


def _is_image(shown: spaces.Box) -> bool:
    return len(shown.shape) > 1 and not np.issubdtype(shown.dtype, np.floating)
