"""What the benchmarks share: how PyTorch computes in them, and how times are taken and printed."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median, quantiles

import torch

from supple.engine.machine.denormals import flushes


@dataclass(frozen=True)
class Options:
    """What every benchmark whose networks learn lets one choose; its own options extend these."""

    flush: bool = True  # off: denormal numbers are kept, and not taken for zero as in training; in peers alike


def begin(threads: int, flush: bool = True) -> None:
    """Let PyTorch compute on so many threads, all of which take denormal numbers for zero, or none.

    To be called before anything else: PyTorch's other threads inherit the flag when they are created, at the first
    parallel operation, and cannot be told later. So ours and peers are read alike, and the two readings are two
    processes. (Runs in the `supple` command always flush.)
    """
    torch.set_flush_denormal(flush)
    torch.set_num_threads(threads)
    print(f"denormal numbers are {'taken for zero' if flushes() else 'kept'}")


def seconds(call: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    started = clock()
    call()
    return clock() - started


@dataclass
class Rounds:
    """What was measured in the rounds, in its own unit; prints as median (least–greatest)."""

    digits: int = 1
    values: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        low, middle, high = (f"{v:,.{self.digits}f}" for v in (min(self.values), self.median, max(self.values)))
        return f"{middle} ({low}–{high})"

    @property
    def median(self) -> float:
        return median(self.values)


@dataclass(frozen=True)
class Timing:
    seconds: float  # median
    noise: float  # interquartile range / median


def measure(
    call: Callable[[], object], repeats: int, warm: int = 1, before: Callable[[], object] = lambda: None
) -> Timing:
    """Time a call after `warm` calls that are not timed; `before` each there is another, not timed either."""
    times = []
    for _ in range(warm + repeats):
        before()
        times.append(seconds(call))
    low, middle, high = quantiles(times[warm:], n=4, method="inclusive")
    return Timing(middle, (high - low) / middle)


def matmul_rate(size: int = 1024, repeats: int = 20) -> float:
    """Return the GFLOP/s of a float32 product of two square matrices on the CPU."""
    a = torch.rand(size, size)
    return 2 * size**3 / median(seconds(lambda: a @ a) for _ in range(repeats)) / 1e9
