"""A tiny data set in MNIST's format, and runs on it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from supple.tracks.vision.data import DataSet, load
from supple.tracks.vision.feed import ImageFeed
from supple.tracks.vision.model import Model
from supple.tracks.vision.settings import VisionSettings
from supple.tracks.vision.task_data import Stream
from tests.tracks.logs import Runs, write_idx

SIDE, TRAIN, TEST = 16, 120, 40  # the CNN of Lillo & Cheney needs 16 × 16; 10 classes of 12 and of 4 images


class Lab(Runs):
    """Runs on the tiny data set, by settings."""

    kind = "vision"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def settings(self, **changes: Any) -> VisionSettings:
        """Two tasks of permuted pixels, 12 updates each, if nothing else is asked for."""
        pixels = changes.get("stream", "permuted") in ("permuted", "random-labels")
        small = {"data": self.folder, "tasks": 2, "images": 48 if pixels else None, "epochs": 2, "batch_size": 8}
        return VisionSettings(**{**small, "measure_every": 12, "device": "cpu", "compile": "off", **changes})

    def model(self, data: DataSet, task: int = 0, **changes: Any) -> Model:
        """A model, of two seeds if nothing else is asked for, in a task."""
        settings = self.settings(**{"seeds": (0, 1), **changes})
        stream = Stream(settings, data)
        model = Model(settings, data, stream.classes, "cpu")
        model.feed = ImageFeed(stream, stream.tasks[task], "cpu")
        return model

    def command(self, *words: object, command: str = "train") -> list[str]:
        """`supple train vision`, or another command, with these words, on the tiny data set."""
        return [str(word) for word in (command, "vision", *words, "--data", self.folder, "--device", "cpu")]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, draw = tmp_path_factory.mktemp("digits"), np.random.default_rng(0)
    for split, count in (("train", TRAIN), ("t10k", TEST)):
        labels = np.arange(count, dtype=np.uint8) % 10
        images = draw.integers(0, 128, (count, SIDE, SIDE), np.uint8)
        images[np.arange(count), labels] = 255  # a bright line, where the class says
        write_idx(folder, split, images, labels)
    return folder


@pytest.fixture(scope="session")
def data(folder: Path) -> DataSet:
    return load("mnist", folder)


@pytest.fixture(scope="session")
def lab(folder: Path) -> Lab:
    return Lab(folder)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
