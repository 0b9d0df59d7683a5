"""What `torchrun` tells each of its processes, in environment variables."""

import os

from supple.registry.errors import UsageError

WORLD_SIZE, RANK, LOCAL_RANK = "WORLD_SIZE", "RANK", "LOCAL_RANK"


def world() -> int:
    """Return the number of processes that train together, or 1 without torchrun."""
    return int(os.environ.get(WORLD_SIZE) or 1)


def rank() -> int:
    """Return the index of this process among them, from 0."""
    return int(os.environ.get(RANK) or 0) if world() > 1 else 0


def is_first() -> bool:
    """Return whether this process is the one that writes."""
    return rank() == 0


def local_rank(gpus: int) -> int:
    """Return the index of this process's GPU among the `gpus` of this machine. Raises UsageError if it has none."""
    index = int(os.environ[LOCAL_RANK])
    if index >= gpus:
        raise UsageError(f"{LOCAL_RANK}={index}, but PyTorch finds {gpus} GPUs here: start one process a GPU at most")
    return index


def require_alone(what: str) -> None:
    """Raise UsageError if torchrun has started several processes, each of which would do the same."""
    if (count := world()) > 1:
        raise UsageError(
            f"{what} runs in processes of its own: start it without torchrun ({WORLD_SIZE}={count} is set)"
        )
