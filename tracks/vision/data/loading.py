"""Data sets by name."""

from collections.abc import Callable
from pathlib import Path

from supple.registry import describe_unknown
from supple.registry.cache import cache_folder
from supple.registry.errors import UsageError

from .cifar import read_cifar
from .dataset import DataSet
from .folders import read_folders
from .idx import read_mnist
from .imagenet32 import read_imagenet32
from .published import PUBLISHED

READERS: dict[str, Callable[[str, Path], DataSet]] = {
    "mnist": read_mnist,
    "fashion-mnist": read_mnist,
    "cifar-10": read_cifar,
    "cifar-100": read_cifar,
    "tiny-imagenet": read_folders,
    "imagenet-32": read_imagenet32,
    "folder": read_folders,
}
NAMES = tuple(READERS)


def load(name: str, folder: str | Path | None = None) -> DataSet:
    """Return a data set from its files in `folder` (`--data`), by default the folder of its name in the cache.

    Names: mnist and fashion-mnist (`supple fetch` downloads them), cifar-10 and cifar-100 (binary version),
    tiny-imagenet, imagenet-32 (npz files or image folders), and folder, which stands for image folders of any kind.
    Nothing is downloaded here. Raises UsageError if the name is unknown or a file is missing or damaged. The message
    names the file.
    """
    if name not in READERS:
        raise UsageError(describe_unknown("data set", name, NAMES))
    if folder is None and name == "folder":
        raise UsageError("data set 'folder' needs --data: the folder with train/<class>/ and test/<class>/")
    place = cache_folder() / name if folder is None else Path(folder).expanduser()
    if not place.is_dir():
        fetched = f"`supple fetch {name}` fills it, or " if name in PUBLISHED else ""
        raise UsageError(f"{place}: no such folder: {fetched}let --data name the one with the files of {name}")
    return READERS[name](name, place)
