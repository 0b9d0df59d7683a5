"""How much memory replay memories need, and whether a machine has it."""

import shutil
from pathlib import Path

import numpy as np

from ...engine.machine.resources import format_bytes, free_memory
from .layout import ReplayLayout


def bytes_needed(capacity: int, num_envs: int, layout: ReplayLayout, whole: bool = False) -> int:
    """Return the size of all arrays of a full `ReplayMemory`, of one member, in bytes.

    With `whole`, those of a `ReservoirMemory`, which stores transitions whole."""
    number = np.dtype(np.int64).itemsize
    if not whole:
        return num_envs * (layout.rows(capacity, num_envs) * layout.row.itemsize + 2 * number)
    current = layout.depth * layout.row["frame"].itemsize
    return bytes_needed(capacity * (layout.depth + 1), 1, layout) + num_envs * current + number


def check_memory(needed: int, capacity: int, folder: Path | None = None, runs: int = 1, members: int = 1) -> None:
    """Raise ValueError if this machine cannot hold the replay memories of `runs` simultaneous runs.

    Nothing is allocated.

    Args:
        needed: Bytes of one memory, from `bytes_needed`.
        capacity: Transitions of one memory.
        folder: Check the disk of this folder instead of the free memory.
        runs: Number of runs.
        members: Number of memories of each.
    """
    if folder is None:
        free, where, otherwise = free_memory(), "memory is free", "keep it in a file with --replay-folder DIR"
    elif folder.is_dir():
        free, where, otherwise = shutil.disk_usage(folder).free, f"{folder} is free", "choose another --replay-folder"
    else:
        raise ValueError(f"--replay-folder {folder} is not a folder: create it or choose another")
    if free < (total := runs * members * needed):
        fits = float(f"{0.95 * capacity * free / total:.2g}")  # the rest of the program needs memory too
        of_each = f"{members} replay memories (one per seed)" if members > 1 else "a replay memory"
        what, fewer = (
            (f"{runs} simultaneous runs, each with {of_each}", "lower --jobs, ") if runs > 1 else (of_each, "")
        )
        raise ValueError(
            f"{what} of {capacity:,} transitions{', need' if runs > 1 else ' need' if members > 1 else ' needs'} "
            f"{format_bytes(total)}, but only {format_bytes(free)} of {where}: "
            f"{fewer}lower --replay-size (to about {fits:,.0f}), or {otherwise}"
        )
