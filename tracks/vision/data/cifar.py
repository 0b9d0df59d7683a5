"""CIFAR-10 and CIFAR-100 in the binary version (https://www.cs.toronto.edu/~kriz/cifar.html). The other one is pickled.

A row of a file consists of its labels, one byte each, and 32×32 red, green and blue values.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from supple.registry.errors import UsageError

from .dataset import DataSet, check_labels, make_data_set, require_file

PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class CifarFiles:
    train: dict[str, int]  # file → rows
    test: dict[str, int]
    label_bytes: int  # CIFAR-100 has a coarse label, then the fine one that is used
    num_classes: int
    archive: str
    folder: str  # that the archive unpacks to


LAYOUTS = {
    "cifar-10": CifarFiles(
        {f"data_batch_{number}.bin": 10_000 for number in range(1, 6)}, {"test_batch.bin": 10_000}, 1, 10,
        "cifar-10-binary.tar.gz", "cifar-10-batches-bin",
    ),
    "cifar-100": CifarFiles(
        {"train.bin": 50_000}, {"test.bin": 10_000}, 2, 100, "cifar-100-binary.tar.gz", "cifar-100-binary"
    ),
}  # fmt: skip


def read_cifar(name: str, folder: Path) -> DataSet:
    """Return the data set in a folder with the files of the binary version. Images are (3, 32, 32), labels are fine.

    Raises UsageError if a file is missing, a file has another size than published, or a label is out of range.
    """
    layout = LAYOUTS[name]
    folder = folder / layout.folder if (folder / layout.folder).is_dir() else folder
    train, test = (_read_files(layout, files, folder) for files in (layout.train, layout.test))
    return make_data_set(name, f"{name}, binary version,", folder, train, test, layout.num_classes)


def _read_files(layout: CifarFiles, files: dict[str, int], folder: Path) -> tuple[Tensor, Tensor]:
    images, labels = [], []
    remedy = f"let --data name the folder that {layout.archive} unpacks to"
    for path, rows in files.items():
        file = require_file(folder / path, remedy)
        expected = rows * (layout.label_bytes + PIXELS)
        if (size := file.stat().st_size) != expected:
            raise UsageError(f"{file}: expected {expected:,} bytes ({rows:,} images), found {size:,}")
        content = torch.from_numpy(np.fromfile(file, np.uint8)).view(rows, -1)
        labels.append(content[:, layout.label_bytes - 1].long())
        images.append(content[:, layout.label_bytes :].unflatten(1, (3, 32, 32)))
        check_labels(labels[-1], layout.num_classes, file)
    return torch.cat(images), torch.cat(labels)
