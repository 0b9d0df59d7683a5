"""What all benchmarks share: how PyTorch computes in them, whose turn it is, and how times are taken and written."""

import atexit
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import TypeVar

import torch

from supple.engine.machine.denormals import flushes

Found = TypeVar("Found")


def begin(threads: int, flush: bool = True) -> None:
    """Let PyTorch compute on so many threads, all of which take denormal numbers for zero, or none.

    To be called before anything else: PyTorch's other threads inherit the flag when they are created, at the first
    parallel operation, and cannot be told later. (Runs in the `supple` command always flush.)
    """
    torch.set_flush_denormal(flush)
    torch.set_num_threads(threads)
    assert flushes() == flush, "this processor cannot take denormal numbers for zero"


def seconds(call: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    started = clock()
    call()
    return clock() - started


def microseconds(call: Callable[[], object], repeats: int = 50) -> float:
    """Return the median microseconds of a call, after one that is not counted."""
    call()
    return 1e6 * median(seconds(call) for _ in range(repeats))


def take_turns(turns: Mapping[str, Callable[[], Found]], rounds: int, warm: int = 1) -> dict[str, list[Found]]:
    """Return what each turn returns in each round, after rounds that are not counted.

    All take turns, in one order and then in the other, so that a busy machine slows all alike.
    """
    found: dict[str, list[Found]] = {name: [] for name in turns}
    for number in range(warm + rounds):
        for name in list(turns)[:: -1 if number % 2 else 1]:
            value = turns[name]()
            if number >= warm:
                found[name].append(value)
    return found


def temporary_folder() -> Path:
    """Return a new folder, which is removed when this process ends."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def matmul_rate(size: int = 1024, repeats: int = 20) -> float:
    """Return the GFLOP/s of a float32 product of two square matrices on the CPU."""
    a = torch.rand(size, size)
    return 2 * size**3 / median(seconds(lambda: a @ a) for _ in range(repeats)) / 1e9


def write_number(value: float) -> str:
    """Return a number in three digits, or all of its whole ones."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def write_spread(values: Sequence[float]) -> str:
    """Return the median of some values, with their quartiles, or least and greatest where there are fewer than five."""
    if len(values) == 1:
        return write_number(values[0])
    low, _, high = quantiles(values, n=4, method="inclusive") if len(values) > 4 else (min(values), 0, max(values))
    return f"{write_number(median(values))} ({write_number(low)}–{write_number(high)})"
