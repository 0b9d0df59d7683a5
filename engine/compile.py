"""torch.compile for training steps: suitable options, and a test whether it works on this machine."""

from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

import torch

from supple.registry import one_line
from supple.registry.errors import RunError

from .user_code import plugins

P = ParamSpec("P")
R = TypeVar("R")

# C++ instead of Python between the kernels saves a fifth of the call; random activations draw as in eager mode
_OPTIONS: dict[str, str | int | bool | Callable[..., object]] = {"cpp_wrapper": True, "fallback_random": True}


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
    """Return whether torch.compile works on this machine. It needs a C++ compiler and Python's headers."""
    try:
        with torch._C.DisableTorchFunction():  # what is compiled while a mode is active is not what training compiles
            torch.compile(lambda x: x + 1, options=_OPTIONS)(torch.zeros(8))
    except Exception:  # for any reason
        return False
    return True
