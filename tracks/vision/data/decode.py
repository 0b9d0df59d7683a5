"""Image files, decoded once into one tensor, which is kept in the cache folder as long as the files do not change."""

import hashlib
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from supple.engine.storage import files
from supple.registry import one_line
from supple.registry.cache import cache_folder
from supple.registry.errors import UsageError

FORMATS = ("JPEG", "PNG", "BMP", "PPM")
IMAGES = "images.safetensors"
SUFFIXES = (".jpeg", ".jpg", ".png", ".bmp", ".ppm")
Split = list[tuple[Path, int]]  # image files, each with its class as a number


def decode_splits(folder: Path, train: Split, test: Split) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return ((images, labels), (images, labels)) of two splits of a folder.

    Images are (N, 3, height, width) uint8 and labels (N,) int64. Raises UsageError if an image cannot be read or has
    another size than the first one. The message names the image.
    """
    kept = cache_folder() / "decoded" / _list_fingerprint(folder, train, test)
    try:
        images = load_file(kept / IMAGES)
    except (OSError, SafetensorError):  # there is none, or it is damaged
        pixels = _read_pixels([file for file, _ in (*train, *test)])
        images = {"train": pixels[: len(train)], "test": pixels[len(train) :]}
        with files.atomic_folder(kept) as temporary:
            save_file(images, temporary / IMAGES)
    learned, tested = (torch.tensor([label for _, label in split]) for split in (train, test))
    return (images["train"], learned), (images["test"], tested)


def _list_fingerprint(folder: Path, *splits: Split) -> str:
    """Return a name for the files' order, sizes and modification times. It is independent of the classes."""
    digest = hashlib.sha256(str(folder.resolve()).encode(errors="surrogateescape"))
    for split in splits:
        digest.update(f"{len(split)}\n".encode())
        for file, _ in split:
            state = file.stat()
            line = f"{file.relative_to(folder)} {state.st_size} {state.st_mtime_ns}\n"
            digest.update(line.encode(errors="surrogateescape"))  # names of files need not be UTF-8
    return digest.hexdigest()[:32]


def _read_pixels(pictures: list[Path]) -> Tensor:
    from PIL import Image  # here, because it is slow to import

    pixels = np.empty(0, np.uint8)
    for row, file in enumerate(pictures):
        try:
            with Image.open(file, formats=FORMATS) as image:
                picture = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
        except Exception as error:  # of PIL, for a file that is damaged, such as SyntaxError or struct.error
            raise UsageError(f"{file}: no image that can be read ({one_line(error)})") from error
        if row == 0:
            pixels = np.empty((len(pictures), *picture.shape), np.uint8)
        found, expected = ("×".join(map(str, array.shape[-2:])) for array in (picture, pixels))
        if found != expected:
            raise UsageError(f"{file}: {found} pixels, expected {expected}, the size of {pictures[0].name}")
        pixels[row] = picture
    return torch.from_numpy(pixels)
