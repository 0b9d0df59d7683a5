"""Training on many processes, as `torchrun` starts them: gradients are averaged, the first process writes.

Every process holds the same weights, draws the same numbers and runs the same hooks; they differ in the micro-batches
that they take only.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .rundir import RunDirectory


def world() -> int:
    """Return how many processes `torchrun` started to train together; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """Return which of them this is, from 0."""
    return int(os.environ.get("RANK", "0"))


def joined() -> bool:
    """Return whether this process has joined the others."""
    return dist.is_initialized()


def first() -> bool:
    """Return whether this process is the one that writes."""
    return rank() == 0


def together() -> None:
    """Wait until every process is here."""
    if joined():
        dist.barrier()


def mean(value: Tensor) -> Tensor:
    """Return the mean of a number over all processes."""
    if joined():
        dist.all_reduce(value)
        value /= world()
    return value


@contextmanager
def processes(device: str) -> Iterator[None]:
    """Join the other processes that `torchrun` started, if any: over NCCL on GPUs, over gloo on CPUs."""
    if world() == 1 or joined():
        yield
        return
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


class Onlooker(RunDirectory):
    """The run directory as the other processes have it: they read it, and write nothing."""

    def start_logs(self, lengths: dict[str, int], seconds: float, logs: Sequence[str]) -> None:
        return

    def _write(self, log: str, fields: dict[str, Any]) -> None:
        return

    def _scalars(self, step: int, values: Mapping[str, float], labels: Mapping[str, int]) -> None:
        return

    def flush(self) -> None:
        return


def open_run(path: Path) -> RunDirectory:
    """Return the run in a folder, for this process."""
    run = RunDirectory.open(path)
    return run if first() else Onlooker(path, run.config)
