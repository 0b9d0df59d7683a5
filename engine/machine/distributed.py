"""Training in several processes, started by `torchrun`: gradients are averaged, and the first process writes.

All processes have the same weights, draw the same random numbers and run the same hooks. They differ only in their
micro-batches, and in the dropout masks of these.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from supple.registry.errors import RunError, one_line

from .torchrun import is_first as is_first
from .torchrun import local_rank, world
from .torchrun import rank as rank


def is_joined() -> bool:
    """Return whether this process has joined the others."""
    return dist.is_initialized()


def wait_for_all() -> None:
    """Wait until all processes have reached this point."""
    if is_joined():
        dist.barrier()


@contextmanager
def join_processes(device: str) -> Iterator[None]:
    """Join the other processes started by `torchrun`, if any, with NCCL on GPUs and gloo on CPUs.

    Raises:
        UsageError: This process has no GPU of its own.
        RunError: They cannot be joined.
    """
    if world() == 1 or is_joined():
        yield
        return
    if device == "cuda":
        torch.cuda.set_device(local_rank(torch.cuda.device_count()))
    try:
        dist.init_process_group("nccl" if device == "cuda" else "gloo")
    except (ValueError, RuntimeError, OSError) as error:
        raise RunError(f"the processes that train together cannot be joined: {one_line(error)}") from error
    try:
        yield
    finally:
        dist.destroy_process_group()
