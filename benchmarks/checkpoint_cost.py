"""What do checkpoints of a growing replay memory cost? Time beside a plain write of the same number of bytes.

    python benchmarks/checkpoint_cost.py --rows 1_000_000

The memory is synthetic: rows of an 84×84 frame, an action and a reward, repeated from a few thousand random ones, so
that a million rows need 7 GB of disk (and 1 GB more while a plain write is timed). The last line needs 7 GB of memory.
Everything is removed afterwards. Criterion: a save costs time in proportion to its new rows, and a fork
costs seconds, whatever the memory holds.
"""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro
from rich.console import Console
from rich.table import Table
from timing import begin, seconds
from torch import Tensor

from supple.engine.forks import fork
from supple.engine.storage import checkpoint, files
from supple.engine.storage.checkpoint import Rows
from supple.engine.storage.run_directory import RunDirectory

POOL = 4096  # random rows, which repeat
CHUNK = 16_384  # rows that are loaded at a time
CONFIG: dict[str, Any] = {
    "algorithm": "dqn", "seed": 0, "total_steps": 128, "start_step": 0, "stop_step": None, "hooks": [], "arm": None,
    "command": "", "data": {}, "settings": {}, "tasks": [],
}  # fmt: skip


@dataclass(frozen=True)
class Args:
    rows: int = 1_000_000  # in the first checkpoint, 7,061 bytes each
    new: tuple[int, ...] = (10_000, 50_000, 250_000)  # rows added before each of the checkpoints that follow
    folder: Path = Path(tempfile.gettempdir())  # where the disk is measured
    threads: int = 2  # threads of torch


def make_frames() -> Tensor:
    """Return the random frames, twice, so that any run of them is one block."""
    return torch.randint(0, 256, (POOL, 84, 84), dtype=torch.uint8).repeat(2, 1, 1)


def make_rows(frames: Tensor, first: int, end: int) -> Rows:
    def read(start: int, stop: int) -> dict[str, Tensor]:
        number = torch.arange(start, stop)
        pieces = [frames[a % POOL :][: min(POOL, stop - a)] for a in range(start, stop, POOL)]
        return {"frames": torch.cat(pieces), "action": (number % 18).to(torch.uint8), "reward": number.float()}

    return Rows(first, end, read)


def time_plain_write(folder: Path, size: int) -> float:
    """Return the seconds to write random bytes to a file and flush it, for a file of at most 1 GB, scaled to `size`."""
    sample = min(size, 2**30)
    block = os.urandom(2**24)

    def write() -> None:
        with (folder / "floor").open("wb") as file:
            for start in range(0, sample, len(block)):
                file.write(block[: sample - start])
            file.flush()
            os.fsync(file.fileno())

    taken = seconds(write)
    (folder / "floor").unlink()
    return taken * size / sample


def count_new_bytes(folder: Path) -> int:
    """Return the bytes of the files in a checkpoint that no other checkpoint shares."""
    return sum(file.stat().st_size for file in folder.iterdir() if file.stat().st_nlink == 1)


def fill(leaf: Rows, memory: dict[str, Tensor], size: int) -> None:
    """Read the rows into a ring of `size`, as a replay memory does."""
    start = leaf.first
    while start < leaf.end:
        at = start % size
        count = min(CHUNK, leaf.end - start, size - at)
        for name, tensor in leaf.read(start, start + count).items():
            memory[name][at : at + count] = tensor
        start += count


def benchmark(args: Args, folder: Path, table: Table) -> None:
    trunk = RunDirectory.create(folder / "trunk", CONFIG)
    frames, end, step = make_frames(), args.rows, 1
    last: Path | None = None

    def line(name: str, taken: float, size: int) -> None:
        floor = time_plain_write(folder, size)
        rate, ratio = f"{size / taken / 1e6:,.0f} MB/s", f"{taken / floor:.2f}×"
        table.add_row(name, f"{size / 1e6:,.1f} MB", f"{taken:.2f} s", rate, f"{floor:.2f} s", ratio)

    def save() -> None:
        nonlocal last
        tree = {"memory": make_rows(frames, end - args.rows, end), "logs": {}}
        last = checkpoint.save(trunk.checkpoints, step, tree, trunk.identity, last)

    taken = seconds(save)
    assert last is not None
    line("first save", taken, count_new_bytes(last))
    for new in args.new:
        end, step = end + new, step + 1
        taken = seconds(save)
        line(f"{new:,} new rows", taken, count_new_bytes(last))
        checkpoint.prune(trunk.checkpoints, keep=1, step=step)
    arm = folder / "arm"
    taken = seconds(lambda: fork(trunk, last, arm, CONFIG | {"start_step": step}))
    table.add_row("fork", "", f"{taken:.2f} s")
    copy = RunDirectory.open(arm)
    tree: dict[str, Any] = {}
    opened = seconds(lambda: tree.update(checkpoint.load(checkpoint.folder_of(copy.checkpoints, step), copy.identity)))
    total = sum(file.stat().st_size for file in checkpoint.folder_of(copy.checkpoints, step).iterdir())
    table.add_row("load: sums", f"{total / 1e6:,.1f} MB", f"{opened:.2f} s", f"{total / opened / 1e6:,.0f} MB/s")
    leaf = tree["memory"]
    kinds = leaf.read(leaf.first, leaf.first + 1)
    memory = {name: torch.zeros(args.rows, *row.shape[1:], dtype=row.dtype) for name, row in kinds.items()}
    filled = seconds(lambda: fill(leaf, memory, args.rows))
    size = sum(tensor.nbytes for tensor in memory.values())
    table.add_row("load: reading", f"{size / 1e6:,.1f} MB", f"{filled:.2f} s", f"{size / filled / 1e6:,.0f} MB/s")


def main(args: Args) -> None:
    begin(args.threads)
    console = Console()
    data = os.urandom(2**28)
    console.print(f"SHA-256: {len(data) / seconds(lambda: files.sha256(data)) / 1e6:,.0f} MB/s in one thread")
    table = Table(title=f"Checkpoints of {args.rows:,} rows in {args.folder}")
    table.add_column("", no_wrap=True)
    for column in ("bytes", "time", "rate", "plain write", "ratio"):
        table.add_column(column, justify="right", no_wrap=True)
    folder = Path(tempfile.mkdtemp(prefix="checkpoint-cost-", dir=args.folder))
    try:
        benchmark(args, folder, table)
    finally:
        shutil.rmtree(folder)
    console.print(table)


if __name__ == "__main__":
    main(tyro.cli(Args))
