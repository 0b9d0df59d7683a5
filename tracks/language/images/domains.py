"""Domains of images with named classes: a data set, with all of its classes or some, unchanged or transformed.

    NAME[:CLASS,CLASS…][+TRANSFORM…]      mnist   fashion-mnist:shoes+inverted   folder:DIR+rotated

A transformed class has its own name, which begins with the transform: "inverted rotated seven". Therefore two domains
share a class only if they share its images, and a model that was trained on "inverted seven" and "rotated boot" can be
tested on "inverted boot".
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from supple.engine.seeding import generator
from supple.registry import describe_unknown
from supple.registry.cache import cache_folder
from supple.registry.errors import UsageError
from supple.tracks.vision.data import NAMES, DataSet, load

FOLDER = "folder:"
CLASSES: dict[str, tuple[str, ...]] = {
    "mnist": ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    "fashion-mnist": (
        "t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
    ),
    "cifar-10": ("airplane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
}  # fmt: skip
GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "mnist": {"low": CLASSES["mnist"][:5], "high": CLASSES["mnist"][5:]},
    "fashion-mnist": {
        "tops": ("t-shirt", "pullover", "dress", "coat", "shirt"),
        "shoes": ("sandal", "sneaker", "ankle boot"),
    },
}
NAME_FILES = ("names.txt", "fine_label_names.txt")  # one name a line; the second is CIFAR-100's own


def coarsen(images: Tensor) -> Tensor:
    small = F.adaptive_avg_pool2d(images.float(), 8)
    return F.interpolate(small, size=images.shape[2:], mode="nearest").round().to(torch.uint8)


def thicken(images: Tensor) -> Tensor:
    return F.max_pool2d(images.float(), 3, stride=1, padding=1).to(torch.uint8)


def add_noise(images: Tensor) -> Tensor:
    noise = torch.randint(0, 128, images.shape, generator=generator(0, "noisy"), dtype=torch.uint8)
    return torch.maximum(images, noise)


# images (N, channels, height, width) uint8 → the same; the same image gives the same on every machine
TRANSFORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "inverted": lambda images: 255 - images,
    "rotated": lambda images: images.rot90(1, (2, 3)),  # a quarter turn
    "mirrored": lambda images: images.flip(3),
    "coarse": coarsen,  # 8 × 8 pixels, as scikit-learn's digits
    "thick": thicken,  # each pixel the brightest of its 3 × 3
    "outlined": lambda images: thicken(images) - images,
    "noisy": add_noise,  # a background of uniform noise, half as bright at most
}


@dataclass(frozen=True, eq=False)
class Domain:
    """Images (N, channels, height, width) uint8 for training and testing, and the names of their classes.

    Labels (N,) int64 are indices of `classes`. source: a description of the data.
    """

    name: str
    classes: tuple[str, ...]
    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    source: str

    def test_subset(self, count: int | None) -> tuple[Tensor, Tensor]:
        """Return this number of test images (None: all) and their labels, always the same, and from all classes."""
        if count is None or count >= len(self.test_labels):
            return self.test_images, self.test_labels
        rows = torch.randperm(len(self.test_labels), generator=generator(0, "tested", self.name))[:count]
        return self.test_images[rows], self.test_labels[rows]


def read_domain(text: str, data: str | Path | None = None) -> Domain:
    """Return the domain that a text describes.

    data: A folder with the data sets in subfolders of their names. Others are looked for in the cache.

    Raises UsageError for an unknown data set, class or transform, and for a class without a name or images.
    """
    base, transforms = _split_transforms(text)
    if base.startswith(FOLDER):
        name, selection, folder = "folder", "", Path(base.removeprefix(FOLDER)).expanduser()
    else:
        name, _, selection = base.partition(":")
        _require_known(text, "data set", name, [*(known for known in NAMES if known != "folder"), f"{FOLDER}DIR"])
        given = Path(data or "").expanduser() / name
        folder = given if data and given.is_dir() else cache_folder() / name
    data_set = load(name, folder)
    classes = _read_class_names(text, name, data_set, folder)
    groups, words = GROUPS.get(name, {}), selection.split(",") if selection else classes
    wanted = dict.fromkeys(each for word in words for each in groups.get(word, (word,)))
    for each in wanted:
        _require_known(text, "class", each, [*groups, *classes])
    chosen = [classes.index(each) for each in wanted]
    if "rotated" in transforms and data_set.image_shape[1] != data_set.image_shape[2]:
        raise UsageError(f"domain {text!r}: only square images can be rotated, these are {data_set.image_shape[1:]}")
    splits = ((data_set.train_images, data_set.train_labels), (data_set.test_images, data_set.test_labels))
    parts = [_select(images, labels, chosen, transforms) for images, labels in splits]
    named = tuple(" ".join((*transforms, each)) for each in wanted)
    for (_, labels), split in zip(parts, ("training", "test"), strict=True):
        counts = torch.bincount(labels, minlength=len(named)).tolist()
        if 0 in counts:
            raise UsageError(f"domain {text!r}: class {named[counts.index(0)]!r} has no {split} images")
    return Domain(text, named, *parts[0], *parts[1], data_set.source)


def class_names(domains: Sequence[Domain]) -> tuple[str, ...]:
    """Return the class names of all domains, each once, in order."""
    return tuple(dict.fromkeys(name for domain in domains for name in domain.classes))


def _require_known(text: str, what: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise UsageError(f"domain {text!r}: {describe_unknown(what, name, known)}")


def _split_transforms(text: str) -> tuple[str, list[str]]:
    """Return the text before its transforms, and the transforms."""
    base, *transforms = text.split("+")
    if base.startswith(FOLDER):  # whose path may have a + in it
        while transforms and transforms[0] not in TRANSFORMS:
            base = f"{base}+{transforms.pop(0)}"
    for word in transforms:
        _require_known(text, "transform", word, TRANSFORMS)
    return base, transforms


def _read_class_names(text: str, name: str, data_set: DataSet, folder: Path) -> tuple[str, ...]:
    """Return the names of the classes: from a file beside them, the known ones, or those of their folders."""
    files = [
        file for each in NAME_FILES for file in (folder / each, *sorted(folder.glob(f"*/{each}"))) if file.is_file()
    ]
    names = CLASSES.get(name, ())
    if files:
        lines = files[0].read_bytes().decode(errors="replace").splitlines()
        names = tuple(line.strip().replace("_", " ") for line in lines)
    elif not names:
        train = next((place for place in (folder, *sorted(folder.glob("*"))) if (place / "train").is_dir()), folder)
        folders = sorted(path.name for path in (train / "train").glob("*") if path.is_dir())
        names = tuple(each.replace("_", " ") for each in folders)
    nameless = [label for label in range(data_set.num_classes) if label >= len(names) or not names[label]]
    if nameless:
        raise UsageError(
            f"domain {text!r}: class {nameless[0]} has no name: {files[0] if files else folder / NAME_FILES[0]} must "
            f"have one on a line for each of {data_set.num_classes} classes"
        )
    if twice := [each for each in names if names.count(each) > 1]:
        raise UsageError(f"domain {text!r}: two classes are called {twice[0]!r}, they cannot be told apart by name")
    return names[: data_set.num_classes]


def _select(images: Tensor, labels: Tensor, chosen: Sequence[int], transforms: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Return the images of the chosen classes, with the transforms applied in order, and their new labels."""
    place = {label: i for i, label in enumerate(chosen)}
    new_labels = torch.tensor([place.get(label, -1) for label in range(int(labels.max()) + 1)])[labels]
    images = images[new_labels >= 0]
    for word in transforms:
        images = TRANSFORMS[word](images)
    return images.contiguous(), new_labels[new_labels >= 0]
