"""Data that only grows (a replay memory), in part files of a checkpoint: what is written once is never written again.

A part file holds a contiguous range of rows. The next checkpoint takes over the parts whose rows are still alive,
by hard link, and writes the rows that no part holds; so every checkpoint's folder is complete by itself.
"""

import re
import stat
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes

from . import files
from .errors import CheckpointError
from .machine import cpus

PART_NAME = re.compile(r"rows-[0-9]+-[0-9]+-[0-9]+\.safetensors")
PART_BYTES = 2**25  # writing holds some four times as much; blocks beyond this size are slow to allocate


@dataclass(frozen=True)
class Rows:
    """Rows numbered from 0 that only grow in number, of which first ≤ row < end are alive (a replay memory's, say).

    A row that a checkpoint holds never changes: that is the caller's promise, and nothing checks it. What rows from
    `load` read lies in the checkpoint's files, mapped into memory: take copies, while the folder exists.
    """

    first: int
    end: int
    read: Callable[[int, int], dict[str, torch.Tensor]]  # rows start … stop: name → (stop − start, …)


@dataclass(frozen=True)
class Part:
    """The file of rows start ≤ row < stop: its name in the checkpoint's folder, its bytes, its SHA-256 sum."""

    file: str
    start: int
    stop: int
    size: int
    sha256: str


def write(folder: Path, name: str, rows: Rows, start: int) -> list[Part]:
    """Write the rows from `start` on into new part files `<name>-<start>.safetensors`."""
    parts: list[Part] = []
    written: Future[None] | None = None
    with ThreadPoolExecutor(1) as disk:  # which writes a part while the next one is read and summed
        while start < rows.end:
            row_bytes = sum(tensor.nbytes for tensor in rows.read(start, start + 1).values())
            stop = min(start + max(1, PART_BYTES // max(1, row_bytes)), rows.end)
            data, file = _serialized(rows, start, stop), f"{name}-{start}.safetensors"
            if written:
                written.result()  # so that no more than two parts are held at a time
            written = disk.submit(files.write, folder / file, data)
            parts.append(Part(file, start, stop, len(data), files.sha256(data)))
            start = stop
        if written:
            written.result()
    return parts


def take_over(source: Path, old: list[Part], folder: Path, rows: Rows) -> list[Part]:
    """Link those parts of an older checkpoint, in `source`, that hold living rows; none of them if there is a gap."""
    parts = [part for part in old if part.stop > rows.first]
    if not parts or parts[0].start > rows.first or parts[-1].stop > rows.end:
        return []
    if any(a.stop != b.start for a, b in pairwise(parts)) or not all(_present(source, part) for part in parts):
        return []
    for part in parts:
        files.link(source / part.file, folder / part.file)
    return parts


def check(path: str, first: int, end: int, parts: list[Part]) -> None:
    """Raise ValueError for parts, at `path` in a tree, that lie elsewhere or do not hold the rows in one piece."""
    if bad := [part.file for part in parts if not PART_NAME.fullmatch(part.file)]:
        raise ValueError(f"{path}: {bad[0]!r} is not the name of a part")
    places = [part.start for part in parts] + [part.stop for part in parts[-1:]]
    whole = all(a.stop == b.start for a, b in pairwise(parts)) and all(a < b for a, b in pairwise(places))
    held = bool(parts) and 0 <= places[0] <= first <= end <= places[-1]
    if not whole or not (held or (0 <= first == end and not parts)):
        raise ValueError(f"{path}: its parts do not hold rows {first} … {end} in one piece")


def require(folder: Path, parts: Iterable[Part]) -> None:
    """Raise CheckpointError naming the first part file that is missing or of another size."""
    for part in parts:
        if not _present(folder, part):
            what = f"damaged (no plain file of {part.size:,} bytes)" if (folder / part.file).exists() else "missing"
            raise CheckpointError(f"{folder / part.file}: {what}")


def verify(folder: Path, parts: list[Part]) -> None:
    """Compare the sums of all parts, on all cores. Raises CheckpointError naming the first one that is damaged."""
    require(folder, parts)
    with ThreadPoolExecutor(cpus()) as pool:
        for _ in pool.map(lambda part: files.verify(folder / part.file, part.sha256), parts):
            pass


def stored(folder: Path, first: int, end: int, parts: list[Part]) -> Rows:
    """Return the rows that a checkpoint's parts hold. Reading some of them costs those, not the whole file."""

    def read(start: int, stop: int) -> dict[str, torch.Tensor]:
        if not first <= start < stop <= end:
            raise ValueError(f"rows {start} … {stop} of {folder}: it holds {first} … {end}")
        pieces = [
            _slice(folder / part.file, max(start - part.start, 0), min(stop, part.stop) - part.start)
            for part in parts
            if part.start < stop and start < part.stop
        ]
        if len(pieces) == 1:
            return pieces[0]
        return {name: torch.cat([piece[name] for piece in pieces]) for name in pieces[0]}

    return Rows(first, end, read)


def _serialized(rows: Rows, start: int, stop: int) -> bytes:
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in rows.read(start, stop).items()}
    for name, tensor in tensors.items():
        if tensor.shape[:1] != (stop - start,):
            raise ValueError(
                f"reading rows {start} … {stop} gave '{name}' of shape {tuple(tensor.shape)}, "
                f"which should begin with {stop - start}"
            )
    return to_bytes(tensors)


def _slice(file: Path, start: int, stop: int) -> dict[str, torch.Tensor]:
    try:
        with safe_open(file, framework="pt") as tensors:
            return {name: tensors.get_slice(name)[start:stop] for name in tensors.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{file}: cannot be read any more ({error})") from error


def _present(folder: Path, part: Part) -> bool:
    try:
        found = (folder / part.file).lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == part.size
