"""Which observations are images, and how they lie in rows."""

import math
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from supple.envs import Picture, find_image, picture_of

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
