"""Image folders: a list of the files of each class."""

from pathlib import Path

from supple.registry.errors import UsageError

from .dataset import DataSet, make_data_set, require_file
from .decode import SUFFIXES, Split, decode_splits

LAYOUT = (
    "expected train/<class>/*.JPEG and test/<class>/*.JPEG (or val/), or, as Tiny-ImageNet is published, "
    "train/<class>/images/*.JPEG and val/val_annotations.txt"
)
ARCHIVE = "tiny-imagenet-200"  # the folder that tiny-imagenet-200.zip unpacks to


def read_folders(name: str, folder: Path) -> DataSet:
    """Return the data set of image folders, with RGB images (3, height, width) of one size.

    Classes are numbered in the order of their names, which must be the same in both splits. Images are decoded once,
    then kept in the cache folder as long as the files do not change. Raises UsageError if the folder has another
    layout, a class is empty, or an image has another size or cannot be read.
    """
    folder = folder / ARCHIVE if (folder / ARCHIVE).is_dir() else folder
    if not (folder / "train").is_dir():
        raise UsageError(f"{folder}: no folder train/ there: {LAYOUT}")
    by_class = _find_classes(folder / "train")
    if not by_class:
        raise UsageError(f"{folder / 'train'}: no class folders there: {LAYOUT}")
    classes = list(by_class)
    annotations = folder / "val" / "val_annotations.txt"
    test = _read_annotations(annotations, classes) if annotations.is_file() else _read_test_folders(folder, classes)
    images = decode_splits(folder, _make_split(by_class), test)
    return make_data_set(name, f"{name}, image folders,", folder, *images, len(classes))


def _find_classes(folder: Path) -> dict[str, list[Path]]:
    """Return class → its image files, in the order of names. Raises UsageError if a class has no images."""
    by_class = {}
    for class_folder in sorted(path for path in folder.iterdir() if path.is_dir()):
        inner = class_folder / "images" if (class_folder / "images").is_dir() else class_folder
        files = sorted(path for path in inner.iterdir() if path.suffix.lower() in SUFFIXES)
        if not files:
            raise UsageError(f"{inner}: an empty class folder: no file ends with {', '.join(SUFFIXES)}")
        by_class[class_folder.name] = files
    return by_class


def _make_split(by_class: dict[str, list[Path]]) -> Split:
    return [(file, label) for label, own in enumerate(by_class.values()) for file in own]


def _read_test_folders(folder: Path, classes: list[str]) -> Split:
    place = next((folder / split for split in ("test", "val") if (folder / split).is_dir()), None)
    if place is None:
        raise UsageError(f"{folder}: no folder test/ or val/ there: {LAYOUT}")
    by_class = _find_classes(place)
    if differing := sorted(by_class.keys() ^ {*classes}):
        raise UsageError(
            f"{place / differing[0]}: train/ and {place.name}/ must hold the same classes, one has no such"
        )
    return _make_split(by_class)


def _read_annotations(annotations: Path, classes: list[str]) -> Split:
    """Return Tiny-ImageNet's validation images, which are its test set. A line names an image, its class and a box."""
    numbers = {name: label for label, name in enumerate(classes)}
    split: Split = []
    for number, line in enumerate(annotations.read_bytes().decode(errors="replace").splitlines(), start=1):
        fields = line.split("\t")
        if len(fields) < 2 or fields[1] not in numbers:
            raise UsageError(f"{annotations}, line {number}: expected an image and one of train/'s classes, "
                             f"found {line[:60]!r}")  # fmt: skip
        file = require_file(annotations.parent / "images" / fields[0], f"{annotations.name} names it")
        split.append((file, numbers[fields[1]]))
    if not split:
        raise UsageError(f"{annotations}: empty, expected a line for each image")
    return split
