"""The processors, GPUs and memory that this process may use, and checks that a run fits into the memory."""

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ...interventions import Learner
from ...registry.errors import UsageError

CGROUP = Path("/sys/fs/cgroup")  # the limits of this process's container, version 2
VISIBLE = "CUDA_VISIBLE_DEVICES"  # the environment variable with the GPUs that a process may use
THREADS = "OMP_NUM_THREADS"  # the environment variable with the threads that a process should have
LOOKED_AT = 2**26  # bytes: free memory is checked before a tensor of this size or larger is made

_processes = 1  # see `sharing`


def cpus() -> int:
    """Return the number of processors that this process may use, given its CPU affinity and its container's limit."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = map(int, (CGROUP / "cpu.max").read_text(encoding="utf-8").split())
    except (OSError, ValueError):  # no container, or "max"
        return bound
    return max(1, min(bound, math.ceil(quota / period)))


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
    """Return the maker of the processor as it names itself, such as AuthenticAMD, or "" if that is not known."""
    return _cpuinfo("vendor_id")


def _cpuinfo(name: str) -> str:
    """Return what Linux says about the first processor, or "" on other systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def gpus() -> list[str]:
    """Return the GPUs that this process may use, as named in CUDA_VISIBLE_DEVICES."""
    count = torch.cuda.device_count()
    listed = os.environ.get(VISIBLE)
    return [str(i) for i in range(count)] if listed is None else listed.split(",")[:count]


def free_memory() -> int:
    """Return the bytes of memory still available to this process, on the machine and in its container."""
    free: int = psutil.virtual_memory().available
    try:
        limit, used = (int((CGROUP / name).read_text(encoding="utf-8")) for name in ("memory.max", "memory.current"))
        stat = dict(line.split() for line in (CGROUP / "memory.stat").read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError):  # no container, or "max"
        return free
    return max(0, min(free, limit - used + int(stat["inactive_file"])))  # the system can drop its file cache


def format_bytes(count: int) -> str:
    """Return a number of bytes as text, such as "1.5 GB"."""
    for unit, bytes_ in (("EB", 1e18), ("PB", 1e15), ("TB", 1e12), ("GB", 1e9)):
        if count >= bytes_:
            return f"{count / bytes_:,.1f} {unit}"
    return f"{count / 1e6:.0f} MB"


class Allocations(TorchFunctionMode):
    """A mode that refuses large tensors for which this process has no memory, before PyTorch makes them.

    Otherwise an operating system that overcommits memory would kill the process when the values are written. While the
    mode is active, each PyTorch call takes a few µs longer.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Set the mode up.

        The error message names the one of these settings that made a tensor large: of equal ones, the first.
        """
        super().__init__()
        self.settings = settings

    def __torch_function__(
        self, function: Any, types: Sequence[Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Raise UsageError if the call would make a tensor that does not fit; otherwise make the call."""
        keywords = kwargs or {}
        shape, dtype = _allocation(function.__name__, args, keywords)
        count = math.prod(shape) * (dtype or torch.get_default_dtype()).itemsize
        on = torch.device(keywords.get("device") or "cpu").type
        if count >= LOOKED_AT and on == "cpu":
            _require_room(self.settings, shape, count)
        return function(*args, **keywords)


def require_room_for_arrays(settings: Mapping[str, Any], *shapes: Sequence[int]) -> None:
    """Raise UsageError if one of these arrays of float64 does not fit into memory.

    It is for arrays of NumPy, which `Allocations` does not see. The error message names one of these settings.
    """
    for shape in shapes:
        _require_room(settings, shape, 8 * math.prod(shape))


def _require_room(settings: Mapping[str, Any], shape: Sequence[int], count: int) -> None:
    if count > (free := free_memory()):
        raise UsageError(
            f"{_largest_part(settings, shape)}a tensor of shape {(*shape,)} needs {format_bytes(count)}, but only "
            f"{format_bytes(free)} of memory is free: use smaller sizes"
        )


def _allocation(name: str, args: Sequence[Any], given: Mapping[str, Any]) -> tuple[Sequence[int], torch.dtype | None]:
    """Return the shape and dtype of the tensor that a call of PyTorch makes, or ((0,), None) if it makes none."""
    first = args[0] if args else None
    if isinstance(first, Tensor):
        if name in ("clone", "empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"):
            return first.shape, given.get("dtype") or first.dtype
        if name in ("new_empty", "new_zeros", "new_ones", "new_full"):
            return _shape(args[1:], given), given.get("dtype") or first.dtype
    elif name in ("empty", "zeros", "ones", "full", "rand", "randn"):
        return _shape(args, given), given.get("dtype")
    elif name == "eye":
        lengths = [*args, *(given[side] for side in ("n", "m") if side in given)]
        return (lengths[0], lengths[-1]), given.get("dtype")
    return (0,), None


def _shape(args: Sequence[Any], given: Mapping[str, Any]) -> Sequence[int]:
    """Return the shape that is given as `size`, as a sequence, or as lengths one by one."""
    first = given.get("size", args[0] if args else 0)
    return first if isinstance(first, (tuple, list)) else [length for length in args if isinstance(length, int)]


def _largest_part(settings: Mapping[str, Any], shape: Sequence[int]) -> str:
    """Return "--option value: " for the largest setting of which a length in this shape is a multiple, or ""."""
    sizes = {
        name: value
        for name, given in settings.items()
        for value in (given if isinstance(given, tuple) else (given,))
        if type(value) is int and value > 1 and any(length and length % value == 0 for length in shape)
    }
    if not sizes:
        return ""
    name = max(sizes, key=lambda each: sizes[each])
    return f"--{name.replace('_', '-')} {sizes[name]}: "


def require_memory(learners: Iterable[Learner], runs: int = 1) -> None:
    """Raise UsageError if the memory does not suffice for training `runs` runs at a time.

    The networks of one run have been built already. Needed are the networks of the other runs and, for each run, the
    gradients, the optimizer's slots and the parameters at the last measurement.
    """
    added = whole = 0
    on = torch.device("cpu")
    for learner in learners:
        weights = sum(p.nbytes for p in learner.trained().values())
        slots = 0 if learner.optimizer is None or isinstance(learner.optimizer, torch.optim.SGD) else 2
        added += (2 + slots) * weights
        whole += sum(value.nbytes for value in (*learner.module.state_dict().values(), *learner.initial.values()))
        on = next((p.device for p in learner.module.parameters()), on)
    needed = runs * added + (runs - 1) * whole
    free = torch.cuda.mem_get_info(on)[0] if on.type == "cuda" else free_memory()
    if needed > free:
        what, fewer = (f"{runs} runs at a time need", "lower --jobs, or ") if runs > 1 else ("the run needs", "")
        raise UsageError(
            f"{what} {format_bytes(needed)} more for gradients and optimizers, but only {format_bytes(free)} of memory "
            f"is free: {fewer}use smaller sizes"
        )
