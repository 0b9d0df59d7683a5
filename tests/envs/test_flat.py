"""Observations of all kinds as vectors."""

import math
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.envs import Flat, Picture, find_image, flatten, picture_of
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


BYTES = {"low": 0, "high": 255, "dtype": np.uint8}


@pytest.mark.parametrize(
    ("shape", "picture"),
    [
        ((64, 48, 3), Picture(3, 64, 48, last=True)),
        ((3, 64, 48), Picture(3, 64, 48)),
        ((10, 10, 10), Picture(10, 10, 10, last=True)),
        ((4, 64, 48, 3), Picture(12, 64, 48, last=True, frames=4)),
        ((4, 3, 64, 48), Picture(12, 64, 48)),
        ((64, 48), Picture(1, 64, 48)),
    ],
)
def test_channels_are_the_smaller_side(shape: tuple[int, ...], picture: Picture) -> None:
    found = picture_of(spaces.Box(**BYTES, shape=shape))
    assert found == picture
    assert found.size == math.prod(shape)


def test_values_are_scaled_as_the_space_says() -> None:
    assert picture_of(spaces.Box(-2.0, 6.0, (8, 8, 1)))[-2:] == (-2.0, 6.0)
    assert picture_of(spaces.Box(0, 1, (8, 8, 1), np.bool_))[-2:] == (0.0, 1.0)
    assert all(map(math.isnan, picture_of(spaces.Box(-np.inf, np.inf, (8, 8, 1)))[-2:]))


@pytest.mark.parametrize("shape", [(64,), (64, 64), (2, 2, 2), (8, 8, 3, 2, 1)])
def test_other_observations_are_vectors(shape: tuple[int, ...]) -> None:
    assert find_image(spaces.Box(**BYTES, shape=shape)) is None


def test_two_dimensions_are_an_image_if_asked_for_and_three_a_vector() -> None:
    plane, image = (spaces.Box(**BYTES, shape=shape) for shape in ((64, 64), (64, 64, 3)))
    assert find_image(plane, "image") == ("", plane)
    assert find_image(image, "vector") is None
    with pytest.raises(ValueError, match=r"^--observations image needs images, but observations are Box"):
        find_image(spaces.Box(-1, 1, (3,)), "image")


def test_several_images_are_refused_by_name() -> None:
    eye = spaces.Box(**BYTES, shape=(8, 8, 3))
    with pytest.raises(ValueError, match=r"several images \(\['left'\], \['right'\]\).* --observations vector$"):
        find_image(spaces.Dict({"left": eye, "right": eye}))


@pytest.mark.parametrize("frames", [(), (4,)])
@pytest.mark.parametrize("observations", ["auto", "image"])
def test_matrices_beside_an_image_are_vectors_also_in_a_stack(frames: tuple[int, ...], observations: Any) -> None:
    eye, matrix = spaces.Box(**BYTES, shape=(*frames, 8, 8, 3)), spaces.Box(-1, 1, (*frames, 5, 5))
    assert find_image(spaces.Dict({"matrix": matrix, "eye": eye}), observations) == ("['eye']", eye)


def test_the_side_of_the_channels_can_be_said() -> None:
    board = spaces.Box(**BYTES, shape=(7, 7, 20))
    assert picture_of(board, "hwc") == Picture(20, 7, 7, last=True)
    assert picture_of(spaces.Box(**BYTES, shape=(4, 20, 7, 7)), "chw") == Picture(80, 7, 7)
