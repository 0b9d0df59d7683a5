"""MNIST and Fashion-MNIST: four IDX files, plain or compressed with gzip.

An IDX file consists of two zero bytes, a type (8: uint8), the number of axes, their lengths as big-endian uint32, and
the values (http://yann.lecun.com/exdb/mnist).
"""

import gzip
import hashlib
import math
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from supple.registry.errors import UsageError

from .dataset import DataSet, check_labels, make_data_set, require_file
from .published import PUBLISHED

CLASSES = 10


def read_mnist(name: str, folder: Path) -> DataSet:
    """Return the data set in a folder with MNIST's four files. Images are (1, 28, 28).

    The files of MNIST and of Fashion-MNIST have the same names. `source` says whether these are the published files of
    `name`. Raises UsageError if a file is missing or damaged, or if images and labels do not match.
    """
    sums: dict[str, str] = {}
    train = _read_split(name, folder, "train", sums)
    test = _read_split(name, folder, "t10k", sums)
    if test[0].shape[1:] != train[0].shape[1:]:
        sizes = [f"{images.shape[2]}×{images.shape[3]}" for images, _ in (test, train)]
        raise UsageError(f"{folder}: the test images are {sizes[0]}, those for training {sizes[1]}")
    what = f"{name}, the published files," if sums == PUBLISHED[name] else f"files other than the published {name},"
    return make_data_set(name, what, folder, train, test, CLASSES)


def read_idx(content: bytes, axes: int, file: Path) -> Tensor:
    """Return the uint8 array of an uncompressed IDX file. Raises UsageError, which names the file."""
    magic = bytes([0, 0, 8, axes])
    if content[:4] != magic:
        raise UsageError(f"{file} is no IDX file of uint8 with {axes} axes: it does not start with {magic.hex()}")
    header = 4 + 4 * axes
    lengths = [int.from_bytes(content[at : at + 4], "big") for at in range(4, header, 4)]
    if len(content) != (expected := header + math.prod(lengths)):
        raise UsageError(f"{file}: expected {expected:,} bytes uncompressed, found {len(content):,}")
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=header).copy()).view(lengths)


def _read_split(name: str, folder: Path, split: str, sums: dict[str, str]) -> tuple[Tensor, Tensor]:
    arrays = []
    for path, axes in ((f"{split}-images-idx3-ubyte", 3), (f"{split}-labels-idx1-ubyte", 1)):
        plain = folder / path
        compressed = folder / f"{path}.gz"
        file = compressed if compressed.is_file() and not plain.is_file() else plain
        require_file(file, f"`supple fetch {name}` downloads it (plain or .gz), or let --data name its folder")
        content = file.read_bytes()
        if file == compressed:
            try:
                content = gzip.decompress(content)
            except (OSError, EOFError, zlib.error) as error:
                raise UsageError(f"{file}: truncated or damaged gzip ({error})") from error
        sums[path] = hashlib.sha256(content).hexdigest()
        arrays.append(read_idx(content, axes, file))
    images, labels = arrays[0].unsqueeze(1), arrays[1].long()
    if not images.numel() or len(images) != len(labels):
        raise UsageError(f"{file}: {len(labels):,} labels, for {len(images):,} images")
    check_labels(labels, CLASSES, file)
    return images, labels
