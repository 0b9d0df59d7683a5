"""Denormal numbers are taken for zero while networks train, on every thread.

The optimizer's slots of dead units decay into numbers too small for full precision, and arithmetic on those is slower:
a fused Adam step on nothing else took 2.7 times as long on an AMD EPYC (docs/reference/benchmarks.md).
`torch.set_flush_denormal` sets the calling thread alone. OpenMP's threads inherit the flag when they are created, which
is at the first parallel operation: so the flag is set before anything else runs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

CHUNK = 2**15  # entries that PyTorch gives a thread at least


def flushes() -> bool:
    """Return whether every thread that PyTorch computes with now takes denormal numbers for zero."""
    smallest = torch.full((CHUNK * torch.get_num_threads(),), torch.finfo(torch.float32).tiny)
    return not bool(smallest.mul_(0.5).any())


@contextmanager
def flushing_denormals(threads: int = 1, warn: Callable[[str], None] | None = None) -> Iterator[None]:
    """Take denormal numbers for zero in this thread, and in all that PyTorch starts from it meanwhile.

    Where other threads were started before, they cannot be told: if `threads` > 1 of them are to compute, `warn` gets
    a line about it.
    """
    half = torch.tensor(torch.finfo(torch.float32).tiny) / 2
    before = float(half) == 0.0
    torch.set_flush_denormal(True)
    try:
        if warn and threads > 1:
            torch.set_num_threads(threads)
            if not flushes():
                warn(
                    "PyTorch's threads were started before this run and do not flush denormal numbers: training may "
                    "slow down as units die; call torch.set_flush_denormal(True) at the start of the program"
                )
        yield
    finally:
        torch.set_flush_denormal(before)
