"""A data set of bright bars in MNIST's format, whose classes are easily told apart, and small models."""

from pathlib import Path

import numpy as np
import pytest

from supple.tracks.language.images.clip import Clip
from supple.tracks.language.images.loading import load_clip
from tests.tracks.logs import write_idx

SIDE, TRAIN, TEST = 28, 200, 60  # 20 and 6 images of each of 10 classes


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What --data names: a folder with `mnist` in it."""
    folder, draw = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    for split, count in (("train", TRAIN), ("t10k", TEST)):
        labels = np.arange(count, dtype=np.uint8) % 10
        images = draw.integers(0, 60, (count, SIDE, SIDE), np.uint8)
        for image, label in zip(images, labels, strict=True):
            image[2 * label + 2 : 2 * label + 6, : 4 + 2 * label] = 255
        write_idx(folder / "mnist", split, images, labels)
    return folder


@pytest.fixture
def clip() -> Clip:
    """A model with new weights, 16 wide, one layer in each encoder."""
    return load_clip("clip:16x1")
