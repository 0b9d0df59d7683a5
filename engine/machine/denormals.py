"""Flush denormal numbers to zero on every thread while networks train.

The optimizer slots of dead units decay to denormal numbers, with which arithmetic is slower: a fused Adam step on only
such numbers took 2.7 times as long on an AMD EPYC (docs/reference/benchmarks.md). `torch.set_flush_denormal` affects
only the calling thread. OpenMP's threads inherit the flag when they are created, at the first parallel operation. The
flag is therefore set before anything else runs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

CHUNK = 2**15  # the smallest number of entries for which PyTorch uses another thread


def flushes() -> bool:
    """Return whether all threads that PyTorch uses now flush denormal numbers to zero."""
    smallest = torch.full((CHUNK * torch.get_num_threads(),), torch.finfo(torch.float32).tiny)
    return not bool(smallest.mul_(0.5).any())


def flush_denormals() -> bool:
    """Flush denormal numbers to zero in this thread, and in the threads that it starts from now on.

    Return whether this processor can do so, as those with SSE3 (x86) and those of the AArch64 architecture can.
    """
    for kind in (np.float32, np.float64):
        np.finfo(kind)  # NumPy 2.0 looks for the smallest denormal number once, and warns if it is zero by then
    return torch.set_flush_denormal(True)


@contextmanager
def flushing_denormals(threads: int = 1, warn: Callable[[str], None] | None = None) -> Iterator[None]:
    """Flush denormal numbers to zero in this thread, and in all threads that PyTorch starts from it in this block.

    Threads that were started earlier cannot be changed. If there are such threads and `threads` > 1, `warn` is called.
    """
    half = torch.tensor(torch.finfo(torch.float32).tiny) / 2
    before = float(half) == 0.0
    able = flush_denormals()
    try:
        if warn and threads > 1 and able:
            torch.set_num_threads(threads)
            if not flushes():
                warn(
                    "PyTorch's threads were started before this run and do not flush denormal numbers, so training may "
                    "become slower when units die; call torch.set_flush_denormal(True) at the start of the program"
                )
        yield
    finally:
        torch.set_flush_denormal(before)
