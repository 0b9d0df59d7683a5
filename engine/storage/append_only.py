"""Append-only data, such as a replay memory, in part files of checkpoints. Each row is written only once.

A part file holds a contiguous range of rows. The next checkpoint hard-links the parts whose rows are still needed, and
writes only the rows that no part holds. The folder of every checkpoint is therefore complete.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save as to_bytes

from supple.engine.machine.resources import cpus
from supple.registry.errors import CheckpointError

from . import files

Tensors = dict[str, torch.Tensor]  # by name
PART_BYTES = 2**25  # writing needs about four times this memory; larger blocks are slow to allocate


@dataclass(frozen=True)
class Rows:
    """Append-only rows, numbered from 0, of which first ≤ row < end are still in use.

    The caller must not change a row that a checkpoint holds; this is not checked. Rows from `load` are read from the
    checkpoint's files, which are mapped into memory: copy them while the folder exists.
    """

    first: int
    end: int
    read: Callable[[int, int], Tensors]  # (start, stop) → name → tensor of shape (stop − start, …)


@dataclass(frozen=True)
class Part:
    """A file with rows start ≤ row < stop: its name in the checkpoint's folder, its size in bytes, its SHA-256 sum."""

    file: str
    start: int
    stop: int
    size: int
    sha256: str


def write(folder: Path, name: str, rows: Rows, start: int) -> list[Part]:
    """Write rows into new part files `<name>-<start>.safetensors`, and return these.

    Args:
        folder: The folder of the checkpoint.
        name: The beginning of the files' names.
        rows: The rows.
        start: The first row to write; all after it are written too.
    """
    parts: list[Part] = []
    written: Future[None] | None = None
    with ThreadPoolExecutor(1) as disk:  # writes a part while the next one is read and hashed
        while start < rows.end:
            row_bytes = sum(tensor.nbytes for tensor in rows.read(start, start + 1).values())
            stop = min(start + max(1, PART_BYTES // max(1, row_bytes)), rows.end)
            data, file = _serialize(rows, start, stop), f"{name}-{start}.safetensors"
            if written:
                written.result()  # so that at most two parts are in memory
            written = disk.submit(files.write, folder / file, data)
            parts.append(Part(file, start, stop, len(data), files.sha256(data)))
            start = stop
        if written:
            written.result()
    return parts


def link_parts(source: Path, old: list[Part], folder: Path, rows: Rows) -> list[Part]:
    """Link the parts of an older checkpoint whose rows are in use, and return these; none if they do not fit.

    Args:
        source: The folder of the older checkpoint.
        old: Its parts.
        folder: The folder of the new checkpoint.
        rows: The rows that are in use.
    """
    parts = [part for part in old if part.stop > rows.first]
    outside = not parts or parts[0].start > rows.first or parts[-1].stop > rows.end
    if outside or not all(_is_present(source, part) for part in parts):
        return []
    for part in parts:
        files.link(source / part.file, folder / part.file)
    return parts


def require(folder: Path, parts: Iterable[Part]) -> None:
    """Raise CheckpointError for the first part file that is missing or has the wrong size."""
    for part in parts:
        if not _is_present(folder, part):
            what = f"damaged (not {part.size:,} bytes)" if (folder / part.file).exists() else "missing"
            raise CheckpointError(f"{folder / part.file}: {what}")


def verify(folder: Path, parts: list[Part]) -> None:
    """Check the SHA-256 sums of all parts, on all cores. Raises CheckpointError for the first damaged one."""
    with ThreadPoolExecutor(cpus()) as pool:
        for _ in pool.map(lambda part: files.read(folder / part.file, part.sha256), parts):
            pass


def open_rows(folder: Path, first: int, end: int, parts: list[Part]) -> Rows:
    """Return the rows first ≤ row < end, which the part files of a checkpoint contain. They are read only when used.

    Args:
        folder: The folder of the checkpoint.
        first: The first row.
        end: The number of the row after the last one.
        parts: The parts, without gaps.
    """

    def read(start: int, stop: int) -> Tensors:
        pieces = [
            _slice(folder / part.file, max(start - part.start, 0), min(stop, part.stop) - part.start)
            for part in parts
            if part.start < stop and start < part.stop
        ]
        if len(pieces) == 1:
            return pieces[0]
        return {name: torch.cat([piece[name] for piece in pieces]) for name in pieces[0]}

    return Rows(first, end, read)


def _serialize(rows: Rows, start: int, stop: int) -> bytes:
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in rows.read(start, stop).items()}
    for name, tensor in tensors.items():
        if tensor.shape[:1] != (stop - start,):
            raise ValueError(
                f"reading rows {start} … {stop} returned '{name}' of shape {tuple(tensor.shape)}, "
                f"whose first length should be {stop - start}"
            )
    return to_bytes(tensors)


def _slice(file: Path, start: int, stop: int) -> Tensors:
    with safe_open(file, framework="pt") as tensors:
        return {name: tensors.get_slice(name)[start:stop] for name in tensors.keys()}  # noqa: SIM118


def _is_present(folder: Path, part: Part) -> bool:
    try:
        return (folder / part.file).stat().st_size == part.size
    except OSError:
        return False
