"""Observations as vectors, for agents whose networks only read vectors."""

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from .fault import text_of

MOST = 1_000_000  # numbers of a one-hot vector
EXACT = 2**24  # up to which float32 holds every whole number
PLAIN = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
FLOATS = (np.float32, np.float64)  # that networks and memories take as they are


def flatten(env: gym.Env) -> gym.Env:
    """Return an environment with vector observations: the given one, wrapped in `Flat` if necessary.

    Raises ValueError if `Flat` does not support the observation space."""
    shown = env.observation_space
    if isinstance(shown, spaces.Box) and len(shown.shape) == 1 and shown.dtype in FLOATS and shown.shape[0]:
        return env
    return Flat(env)


class Flat(gym.ObservationWrapper):
    """A wrapper that returns each observation as a vector, (size,):

    Discrete(n)                  one-hot, n numbers, float32
    MultiDiscrete([n₁, n₂, …])   one-hot vectors, concatenated, Σnᵢ numbers, float32
    MultiBinary                  its zeros and ones, float32
    Box of real numbers          its numbers in C order, float32, or float64 if they have more than 32 bits
    Box of integers              its numbers in C order, unscaled, float32, or float64 if its bounds are beyond ±2²⁴
    Dict, Tuple of these         their parts, concatenated as by `gymnasium.wrappers.FlattenObservation`

    Raises ValueError for spaces without numbers, for images (see `is_image`), for one-hot vectors of more than `MOST`
    numbers, and for other spaces: Text, Sequence, ….
    """

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        shown = self._shown = env.observation_space
        _require_numbers(shown)
        self._starts: NDArray[np.int64] | None = None  # the start of each one-hot part minus its smallest value
        if isinstance(shown, spaces.Discrete):
            self._size = int(shown.n)
            self._starts = np.array([-shown.start])
        elif isinstance(shown, spaces.MultiDiscrete):
            counts = shown.nvec.ravel()
            self._size = int(counts.sum())
            self._starts = np.cumsum(counts) - counts - shown.start.ravel()
        numbers = shown if isinstance(shown, spaces.Box) else spaces.flatten_space(shown)
        assert isinstance(numbers, spaces.Box)
        self._dtype = _real_dtype(numbers)
        low, high = (bound.ravel().astype(self._dtype) for bound in (numbers.low, numbers.high))
        self.observation_space = spaces.Box(low, high, dtype=self._dtype.type)

    def observation(self, observation: Any) -> NDArray[np.floating]:
        """Return an observation as a vector, (size,)."""
        if self._starts is not None:
            vector = np.zeros(self._size, self._dtype)
            vector[self._starts + np.ravel(observation)] = 1
            return vector
        if isinstance(self._shown, spaces.Dict | spaces.Tuple):
            observation = spaces.flatten(self._shown, observation)
        return np.asarray(observation, self._dtype).ravel()

    def observations(self, observations: NDArray[Any]) -> NDArray[np.floating]:
        """Return the observations of several copies, numbers (n, …), as vectors, (n, size)."""
        rows = observations.reshape(len(observations), -1)
        if self._starts is None:
            return rows.astype(self._dtype)
        vectors = np.zeros((len(rows), self._size), self._dtype)
        vectors[np.arange(len(rows))[:, None], self._starts + rows] = 1
        return vectors


def is_image(shown: spaces.Space) -> bool:
    """Return whether a space looks like images: by its shape, or because it has several dimensions of bytes.

    Shapes of images have two sides of 8 or more and channels, or two sides of 16 or more. Smaller boards and matrices
    become vectors, except for bytes with all values from 0 to 255.
    """
    if not isinstance(shown, spaces.Box) or len(shown.shape) < 2:
        return False
    side = sorted(shown.shape)[-2]
    bytes_ = shown.dtype == np.uint8 and (shown.low == 0).all() and (shown.high == 255).all()
    return bool(bytes_ or side >= (8 if len(shown.shape) > 2 else 16))


def _real_dtype(numbers: spaces.Box) -> np.dtype[Any]:
    """Return the type in which the numbers of a Box become real ones."""
    if np.issubdtype(numbers.dtype, np.floating):
        return np.dtype(np.float32 if numbers.dtype.itemsize <= 4 else np.float64)
    largest = max(float(np.abs(bound.astype(np.float64)).max(initial=0)) for bound in (numbers.low, numbers.high))
    return np.dtype(np.float32 if largest <= EXACT else np.float64)


def _require_numbers(shown: spaces.Space) -> None:
    """Raise ValueError if a space is not one of numbers that become a vector."""
    parts = dict(_parts(shown))
    for name, part in parts.items():
        if not isinstance(part, PLAIN):
            raise ValueError(
                f"observations of {text_of(shown)} cannot be vectors{name and f' because of {name}'}: use a Box, "
                "Discrete, MultiDiscrete or MultiBinary space, or a Dict or Tuple of them"
            )
    for name, part in parts.items():
        if isinstance(part, spaces.Discrete | spaces.MultiDiscrete) and spaces.flatdim(part) > MOST:
            raise ValueError(
                f"observations of {text_of(part)}{name and f', the part {name},'} would be one-hot vectors of "
                f"{spaces.flatdim(part):,} numbers, more than {MOST:,}: use a Box"
            )
        if is_image(part):
            where = (
                f"the part {name} of observations, {text_of(part)}, is an image"
                if name
                else f"{text_of(shown)} are images"
            )
            raise ValueError(
                f"{where if name else f'observations of {where}'}, which only dqn reads, as one grey frame of uint8, "
                "(height, width): to learn from its pixels as a vector, register the environment with the wrapper "
                "gymnasium.wrappers.FlattenObservation around it"
            )
    if not sum(spaces.flatdim(part) for part in parts.values()):
        raise ValueError(f"observations of {text_of(shown)} are empty: an agent needs at least one number")


def _parts(shown: spaces.Space, name: str = "") -> Iterator[tuple[str, spaces.Space]]:
    """Yield name and space of every part of a space that is neither a Dict nor a Tuple."""
    if isinstance(shown, spaces.Dict):
        for key, part in shown.spaces.items():
            yield from _parts(part, f"{name}[{key!r}]")
    elif isinstance(shown, spaces.Tuple):
        for i, part in enumerate(shown.spaces):
            yield from _parts(part, f"{name}[{i}]")
    else:
        yield name, shown
