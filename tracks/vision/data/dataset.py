"""The data set that every reader of files returns, and checks that readers share."""

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from supple.registry.errors import UsageError


@dataclass(frozen=True, eq=False)
class DataSet:
    """Labelled images of one size, for training and for testing, in the order of their files."""

    name: str
    source: str
    """What was read and from where, in words; belongs beside every result."""
    train_images: Tensor
    """(N, channels, height, width) uint8"""
    train_labels: Tensor
    """(N,) int64 in 0 … num_classes − 1"""
    test_images: Tensor
    test_labels: Tensor
    num_classes: int
    contents: str = ""
    """`source` without the place where it lies: what a run that goes on must find again."""

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """The shape of one image: (channels, height, width)."""
        channels, height, width = self.train_images.shape[1:]
        return channels, height, width


def make_data_set(name: str, what: str, folder: Path, train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor],
              num_classes: int) -> DataSet:  # fmt: skip
    """Return the data set made of two pairs (images, labels), with a description of its `source`.

    Args:
        name: The data set's name.
        what: What was read, in words.
        folder: Where it was read from.
        train: Images (N, channels, height, width) uint8 and labels (N,) int64.
        test: The same for testing.
        num_classes: The number of classes.
    """
    size = "×".join(str(length) for length in train[0].shape[1:])
    counts = f"{len(train[1]):,} + {len(test[1]):,} images, {size}, {num_classes} classes"
    return DataSet(name, f"{what} in {folder}: {counts}", *train, *test, num_classes, f"{what}: {counts}")


def check_labels(labels: Tensor, num_classes: int, file: Path, first: int = 0) -> None:
    """Raise UsageError if a label is out of range. The message names the file and the row.

    Args:
        labels: (N,).
        num_classes: The number of classes.
        file: Where the labels were read.
        first: The smallest label; the largest is first + num_classes − 1.
    """
    wrong = (labels < first) | (labels >= first + num_classes)
    if wrong.any():
        row = int(wrong.int().argmax())
        last = first + num_classes - 1
        raise UsageError(f"{file}: row {row} (the first is 0) has label {labels[row]}, expected {first} … {last}")


def require_file(file: Path, remedy: str) -> Path:
    """Return the path of a file. Raises UsageError, which says how to get the file, if it does not exist."""
    if not file.is_file():
        raise UsageError(f"{file} is missing: {remedy}")
    return file
