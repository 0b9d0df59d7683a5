"""torch.compile for training steps: suitable options, and a test whether it works on this machine."""

import os
import shutil
import sysconfig
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

import torch

from supple.registry import one_line
from supple.registry.errors import RunError
from supple.registry.native import load_native

from .user_code import plugins

P = ParamSpec("P")
R = TypeVar("R")

# C++ instead of Python between the kernels saves a fifth of the call; random activations draw as in eager mode; the
# vector instructions that the processor names are not tried in each process, which takes a second (see `can_compile`)
_OPTIONS: dict[str, str | int | bool | Callable[..., object]] = {
    "cpp_wrapper": True, "fallback_random": True, "cpp.vec_isa_ok": True,
}  # fmt: skip


def compile_step(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function, compiled to one graph per combination of shapes.

    Gradients that it takes (`torch.autograd.grad`) are in the same graph. With two graphs, ReLU would pass a mask of
    booleans between them, which is slow to write. A function that cannot be traced raises RunError.
    """
    from torch._dynamo.exc import Unsupported  # takes a second to import

    torch._dynamo.config.recompile_limit = max(64, torch._dynamo.config.recompile_limit)
    torch._dynamo.config.trace_autograd_ops = True
    step = torch.compile(function, fullgraph=True, dynamic=False, options=_OPTIONS)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return step(*args, **kwargs)
        except Unsupported as error:
            one_of = f": perhaps one of plug-in {plugins.describe_all()}" if plugins.loaded() else ""
            raise RunError(
                f"torch.compile cannot trace the loss ({one_line(error)}): use --compile off, or set "
                f"`traceable = False` in the intervention whose penalty it is{one_of}"
            ) from error

    return call


@cache
def can_compile() -> bool:
    """Return whether torch.compile finds what it needs: a C++ compiler for this processor, OpenMP and Python's headers.

    A small file that includes them is compiled, once for all processes. To try torch.compile would take 6 s in each."""
    if shutil.which(os.environ.get("CXX", "g++")) is None:
        return False
    headers = f"-I{sysconfig.get_path('include')}"
    return load_native(Path(__file__).with_name("probe.cpp"), headers, "-fopenmp", "-march=native") is not None
