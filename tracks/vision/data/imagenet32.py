"""Downsampled ImageNet (Chrabaszcz et al. 2017, arXiv 1707.08819) in the npz version: ten files and one."""

import math
import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from supple.registry.errors import UsageError

from .dataset import DataSet, check_labels, make_data_set, require_file
from .folders import read_folders

CLASSES = 1000
TRAIN = [f"train_data_batch_{number}.npz" for number in range(1, 11)]
TEST = ["val_data.npz"]
SHAPE = (3, 32, 32)


def read_imagenet32(name: str, folder: Path) -> DataSet:
    """Return ImageNet-32 from its npz files, or from image folders if there is a folder `train`: images (3, 32, 32).

    The validation images are the test set. Labels are 1 to 1000 in the files and 0 to 999 here. Raises UsageError if a
    file is missing or damaged, or has another shape.
    """
    if (folder / "train").is_dir():
        return read_folders(name, folder)
    train, test = _read_files(TRAIN, folder), _read_files(TEST, folder)
    return make_data_set(name, f"{name}, npz files,", folder, train, test, CLASSES)


def _read_files(names: list[str], folder: Path) -> tuple[Tensor, Tensor]:
    remedy = f"--data needs a folder with {TRAIN[0]} … {TRAIN[-1]} and {TEST[0]}, or with train/<class>/"
    files = [require_file(folder / name, remedy) for name in names]
    labels = []
    for file in files:
        read = _read_array(file, "labels")
        if read.ndim != 1 or read.dtype.kind not in "iu":
            raise UsageError(f"{file}: 'labels' is {read.shape} {read.dtype}, expected one integer for each image")
        labels.append(torch.from_numpy(read.astype(np.int64)) - 1)
        check_labels(labels[-1] + 1, CLASSES, file, first=1)
    images = torch.empty(sum(len(part) for part in labels), *SHAPE, dtype=torch.uint8)  # 3.9 GB: only once
    start = 0
    for file, file_labels in zip(files, labels, strict=True):
        pixels = _read_array(file, "data")
        if pixels.shape != (expected := (len(file_labels), math.prod(SHAPE))) or pixels.dtype != np.uint8:
            raise UsageError(f"{file}: 'data' is {pixels.shape} {pixels.dtype}, expected {expected} uint8")
        images[start : start + len(file_labels)].flatten(1).numpy()[:] = pixels
        start += len(file_labels)
    return images, torch.cat(labels)


def _read_array(file: Path, key: str) -> np.ndarray:
    try:
        return np.load(file, allow_pickle=False)[key]
    except (OSError, ValueError, LookupError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise UsageError(f"{file}: array {key!r} cannot be read: {error}") from error
