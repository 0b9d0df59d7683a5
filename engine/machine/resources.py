"""The processors and GPUs that this process may use."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

VISIBLE = "CUDA_VISIBLE_DEVICES"  # the environment variable with the GPUs that a process may use
THREADS = "OMP_NUM_THREADS"  # the environment variable with the threads that a process should have
_processes = 1  # see `sharing`


def cpus() -> int:
    """Return the number of processors that this process may use, given its CPU affinity."""
    return len(os.sched_getaffinity(0))


@contextmanager
def sharing(processes: int) -> Iterator[None]:
    """Tell `own_cpus`, inside this context, how many processes like this one run at the same time."""
    global _processes
    before, _processes = _processes, processes
    try:
        yield
    finally:
        _processes = before


def own_cpus() -> int:
    """Return this process's part of the processors: `cpus` over the number of workers, OMP_NUM_THREADS at most."""
    limit = os.environ.get(THREADS, "")
    return max(1, min(cpus() // _processes, int(limit) if limit.isdecimal() else cpus()))


def processor_maker() -> str:
    """Return the maker of the first processor as Linux has it, such as AuthenticAMD, or ""."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("vendor_id")), "")


def gpus() -> list[str]:
    """Return the GPUs that this process may use, as named in CUDA_VISIBLE_DEVICES."""
    count = torch.cuda.device_count()
    listed = os.environ.get(VISIBLE)
    return [str(i) for i in range(count)] if listed is None else listed.split(",")[:count]
