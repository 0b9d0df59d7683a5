"""Observations of all kinds as vectors."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.envs import Flat, flatten
from tests.envs.worlds import Toy

KINDS = {
    "discrete, from 3": spaces.Discrete(5, start=3),
    "multi-discrete": spaces.MultiDiscrete([2, 3, 4]),
    "multi-discrete, 2 × 2": spaces.MultiDiscrete([[2, 3], [4, 1]]),
    "multi-binary, 2 × 3": spaces.MultiBinary([2, 3]),
    "numbers, 2 × 3": spaces.Box(-1, 1, (2, 3), np.float64),
    "one number": spaces.Box(-1, 1, (), np.float32),
    "integers": spaces.Box(0, 255, (128,), np.uint8),
    "large integers": spaces.Box(-(2**40), 2**40, (3,), np.int64),
    "half precision": spaces.Box(-1, 1, (3,), np.float16),
    "dict": spaces.Dict({"b": spaces.Discrete(3, start=2), "a": spaces.Box(-1, 1, (2, 2), np.float64)}),
    "dict of dicts": spaces.Dict({"a": spaces.Dict({"b": spaces.MultiBinary(2)}), "c": spaces.MultiDiscrete([2, 3])}),
    "tuple": spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1, (), np.float32)]),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10)
@given(seed=st.integers(0, 1000))
def test_vectors_equal_gymnasiums_flattened_observations(kind: str, seed: int) -> None:
    space = KINDS[kind]
    inner = Toy(space)
    env = flatten(inner)
    for look in (lambda: env.reset(seed=seed), lambda: env.step(0)):
        vector = look()[0]
        np.testing.assert_array_equal(vector, spaces.flatten(space, inner.shown))
        assert vector.shape == env.observation_space.shape == (spaces.flatdim(space),)
        assert vector.dtype == env.observation_space.dtype
        assert vector.dtype.kind == "f"
        assert env.observation_space.contains(vector)


def test_vectors_of_real_numbers_stay_as_they_are() -> None:
    inner = Toy(spaces.Box(-1, 1, (3,), np.float64))
    assert flatten(inner) is inner


def test_discrete_numbers_that_start_elsewhere_are_counted_from_there() -> None:
    env = Flat(Toy(spaces.MultiDiscrete([2, 3], start=[5, -1])))
    np.testing.assert_array_equal(env.observation(np.array([6, 0])), [0, 1, 0, 1, 0])


IMAGES = {
    "bytes": (spaces.Box(0, 255, (8, 8, 3), np.uint8), np.uint8),
    "planes": (spaces.Box(0, 1, (10, 10, 4), np.bool_), np.uint8),
    "real numbers": (spaces.Box(-1.0, 1.0, (3, 64, 64), np.float64), np.float32),
}


@pytest.mark.parametrize("kind", IMAGES)
def test_images_are_rows_of_their_values_and_stay_bytes(kind: str) -> None:
    space, dtype = IMAGES[kind]
    inner = Toy(space)
    env = flatten(inner)
    row = env.reset(seed=1)[0]
    assert row.dtype == env.observation_space.dtype == dtype
    np.testing.assert_array_equal(row, inner.shown.ravel().astype(dtype))
    assert env.observation_space.contains(row)


def test_the_image_of_several_parts_comes_first() -> None:
    eye = spaces.Box(0, 255, (4, 4, 3), np.uint8)
    space = spaces.Dict({"a": spaces.Discrete(3), "eye": eye, "z": spaces.Box(-1, 1, (2,), np.float64)})
    inner = Toy(space)
    env = flatten(inner)
    row = env.reset(seed=3)[0]
    assert row.dtype == np.float32
    np.testing.assert_array_equal(row[:48], inner.shown["eye"].ravel())
    np.testing.assert_array_equal(row[48:51], np.eye(3)[inner.shown["a"]])
    np.testing.assert_array_equal(row[51:], inner.shown["z"].astype(np.float32))
    assert env.observation_space.contains(row)


def test_images_are_vectors_of_real_numbers_if_asked_for() -> None:
    inner = Toy(spaces.Box(0, 255, (8, 8, 3), np.uint8))
    row = flatten(inner, "vector").reset(seed=1)[0]
    assert row.dtype == np.float32
    np.testing.assert_array_equal(row, inner.shown.ravel())


NO_VECTOR, EMPTY = "cannot be vectors", "are empty: an agent needs at least one number"
REFUSED = [
    (spaces.Tuple([spaces.Discrete(2), spaces.Text(4)]), NO_VECTOR),
    (spaces.Dict({"a": spaces.Sequence(spaces.Discrete(2))}), NO_VECTOR),
    (spaces.Text(4), NO_VECTOR),
    (spaces.Box(-1, 1, (3, 0)), EMPTY),
    (spaces.Dict({}), EMPTY),
    (spaces.Dict({"a": spaces.MultiDiscrete([2**31, 2])}), ", the part ['a'], would be one-hot vectors of"),
]


@pytest.mark.parametrize(("space", "line"), REFUSED)
def test_observations_that_cannot_be_rows_are_refused_by_name(space: spaces.Space, line: str) -> None:
    with pytest.raises(ValueError, match=r"^observations of ") as error:
        flatten(Toy(space))
    assert line in str(error.value)
    assert line != NO_VECTOR or str(space) in str(error.value)
    assert "\n" not in str(error.value)
