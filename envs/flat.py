"""Observations as rows of numbers, which agents store and networks read: vectors, and images pixel by pixel."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from .fault import text_of
from .pictures import Observations, SpacePart, find_image, parts_of, picture_of

MOST = 1_000_000  # numbers of a one-hot vector
EXACT = 2**24  # up to which float32 holds every whole number
PLAIN = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
BOOL, BYTE = np.dtype(np.bool_), np.dtype(np.uint8)
FLOATS = (np.float32, np.float64)  # that networks and memories take as they are


def flatten(env: gym.Env, observations: Observations = "auto") -> gym.Env:
    """Return an environment whose observations are rows of numbers: the given one, wrapped in `Flat` if necessary.

    observations: Which observations are images (see `find_image`).
    Raises ValueError if `Flat` does not support the observation space."""
    shown = env.observation_space
    if isinstance(shown, spaces.Box) and len(shown.shape) == 1 and shown.dtype in FLOATS and shown.shape[0]:
        find_image(shown, observations)  # raises if there must be an image
        return env
    return Flat(env, observations)


class Flat(gym.ObservationWrapper):
    """A wrapper that returns each observation as a row of numbers, (size,):

    Discrete(n)                  one-hot, n numbers, float32
    MultiDiscrete([n₁, n₂, …])   one-hot vectors, concatenated, Σnᵢ numbers, float32
    MultiBinary                  its zeros and ones, float32
    Box of real numbers          its numbers in C order, float32, or float64 if they have more than 32 bits
    Box of integers              its numbers in C order, unscaled, float32, or float64 if its bounds are beyond ±2²⁴
    an image (see `find_image`)  its values in C order, uint8 if they are uint8 or bool, else float32
    Dict, Tuple of these         their parts, concatenated as by `gymnasium.wrappers.FlattenObservation`. With an image,
                                 its values come first, and all are float32

    Raises ValueError for spaces without numbers, for several images, for one-hot vectors of more than `MOST` numbers,
    and for other spaces: Text, Sequence, ….

    Attributes:
        picture: How the image lies in a row, or None if observations are vectors.
    """

    def __init__(self, env: gym.Env, observations: Observations = "auto") -> None:
        super().__init__(env)
        shown = self._shown = env.observation_space
        _require_numbers(shown)
        image = find_image(shown, observations)
        self.picture = None if image is None else picture_of(image.space, observations)
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
        self._dtype, self._order = _real_dtype(numbers), None
        if image is not None and image.name:
            self._dtype, self._order = np.dtype(np.float32), _image_first(shown, image)
        elif image is not None:
            self._dtype = np.dtype(np.uint8 if numbers.dtype in (np.uint8, np.bool_) else np.float32)
        self._composite = isinstance(shown, spaces.Dict | spaces.Tuple)
        low, high = (self._row(bound.ravel()) for bound in (numbers.low, numbers.high))
        self.observation_space = spaces.Box(low, high, dtype=self._dtype.type)

    def observation(self, observation: Any) -> NDArray[Any]:
        """Return an observation as a row, (size,)."""
        if self._starts is not None:
            vector = np.zeros(self._size, self._dtype)
            vector[self._starts + np.ravel(observation)] = 1
            return vector
        if self._composite:
            observation = spaces.flatten(self._shown, observation)
        return self._row(np.asarray(observation).reshape(-1))

    def _row(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return the numbers of an observation in the order and type of a row."""
        if self._order is not None:
            numbers = numbers[self._order]
        if numbers.dtype is BOOL and self._dtype is BYTE:
            return numbers.view(BYTE)  # which takes no time
        return numbers.astype(self._dtype, copy=False)

    def observations(self, observations: NDArray[Any]) -> NDArray[Any]:
        """Return the observations of several copies, numbers (n, …), as rows, (n, size)."""
        rows = observations.reshape(len(observations), -1)
        if self._starts is None:
            return rows.astype(self._dtype)
        vectors = np.zeros((len(rows), self._size), self._dtype)
        vectors[np.arange(len(rows))[:, None], self._starts + rows] = 1
        return vectors


def _image_first(shown: spaces.Space, image: SpacePart) -> NDArray[np.int64]:
    """Return the order of the numbers of a Dict or Tuple that puts those of the image first."""
    places = [np.full(spaces.flatdim(part), name == image.name) for name, part in parts_of(shown)]
    return np.argsort(~np.concatenate(places), kind="stable")


def _real_dtype(numbers: spaces.Box) -> np.dtype[Any]:
    """Return the type in which the numbers of a Box become real ones."""
    if np.issubdtype(numbers.dtype, np.floating):
        return np.dtype(np.float32 if numbers.dtype.itemsize <= 4 else np.float64)
    if np.can_cast(numbers.dtype, np.float32):  # without a look at the bounds, which takes long for large images
        return np.dtype(np.float32)
    largest = max(float(np.abs(bound.astype(np.float64)).max(initial=0)) for bound in (numbers.low, numbers.high))
    return np.dtype(np.float32 if largest <= EXACT else np.float64)


def _require_numbers(shown: spaces.Space) -> None:
    """Raise ValueError if a space is not one of numbers that become a vector."""
    parts = dict(parts_of(shown))
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
    if not sum(spaces.flatdim(part) for part in parts.values()):
        raise ValueError(f"observations of {text_of(shown)} are empty: an agent needs at least one number")
