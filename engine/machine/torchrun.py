"""What `torchrun` tells each of its processes, in environment variables."""

import os

from supple.registry.errors import UsageError

WORLD_SIZE, RANK, LOCAL_RANK = "WORLD_SIZE", "RANK", "LOCAL_RANK"
ADDRESS, PORT = "MASTER_ADDR", "MASTER_PORT"
PORTS = 2**16
RIGHT = {
    WORLD_SIZE: "the number of processes, 1 or more",
    RANK: "the index of a process, 0 or more",
    LOCAL_RANK: "the index of a GPU, 0 or more",
    ADDRESS: "the machine of the first process",
    PORT: f"a port, 1 to {PORTS - 1}",
}


def world() -> int:
    """Return the number of processes that train together, or 1 without torchrun.

    Raises:
        UsageError: The variables are not as torchrun sets them.
    """
    return _read_variables()[0]


def rank() -> int:
    """Return the index of this process among them, from 0. Raises UsageError as `world` does."""
    return _read_variables()[1]


def is_first() -> bool:
    """Return whether this process is the one that writes. Raises UsageError as `world` does."""
    return rank() == 0


def local_rank(gpus: int) -> int:
    """Return the index of this process's GPU among the `gpus` of this machine. Raises UsageError if it has none."""
    index = _number(LOCAL_RANK)
    if index is None:
        raise _value_error(LOCAL_RANK)
    if index >= gpus:
        raise UsageError(f"{LOCAL_RANK}={index}, but PyTorch finds {gpus} GPUs here: start one process a GPU at most")
    return index


def remark() -> str:
    """Return a line if there is a RANK that means nothing here, such as that of a scheduler, or ""."""
    if os.environ.get(WORLD_SIZE) or not (index := _number(RANK)):
        return ""
    return f"{RANK}={index} without {WORLD_SIZE} is not from torchrun: this process trains alone, as without it"


def require_alone(what: str) -> None:
    """Raise UsageError if torchrun has started several processes, each of which would do the same."""
    if (count := world()) > 1:
        raise UsageError(
            f"{what} runs in processes of its own: start it without torchrun ({WORLD_SIZE}={count} is set)"
        )


def require_whole() -> None:
    """Raise UsageError if there are several processes and a variable is missing that they need to find each other."""
    if world() > 1:
        for name in (RANK, ADDRESS):
            if not os.environ.get(name):
                raise _value_error(name)
        if not 0 < (_number(PORT) or 0) < PORTS:
            raise _value_error(PORT)


def _read_variables() -> tuple[int, int]:
    """Return the number of processes and the index of this one."""
    count, index = _number(WORLD_SIZE), _number(RANK)
    if count is None:
        return 1, 0
    if count < 1:
        raise _value_error(WORLD_SIZE)
    if (index or 0) >= count:
        raise _value_error(RANK, f"the index of a process, below {WORLD_SIZE}={count}")
    return count, index or 0


def _number(name: str) -> int | None:
    """Return the value of a variable, or None if it is not set or empty."""
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise _value_error(name)
    return int(text)


def _value_error(name: str, right: str = "") -> UsageError:
    setting = f"{name}={os.environ[name]}" if os.environ.get(name) else f"{name} is not set"
    return UsageError(
        f"{setting}: it must be {right or RIGHT[name]}, as torchrun sets it; to train in one process, unset "
        f"{WORLD_SIZE} and {RANK}"
    )
