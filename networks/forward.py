"""The function that runs a network, where it is not its `forward`: a method by name, or a function of yours."""

import copy
from collections.abc import Callable, Sequence
from functools import partial
from inspect import getattr_static
from typing import Any

from torch import nn

from supple.registry import did_you_mean

Forward = str | Callable[..., Any]  # the name of a method, or a function of the module and the inputs

RUN = "run_on_inputs"

_MISSING = nn.Module.forward  # what a class without a forward has
_WRAPPERS = (nn.DataParallel, nn.parallel.DistributedDataParallel)


def runner(module: nn.Module, forward: Forward = "forward") -> Callable[..., Any]:
    """Return the function of the inputs that runs a module. Raises ValueError if the class has no such method."""
    if forward == "forward":
        return module
    if not isinstance(forward, str):
        return partial(forward, module)
    method: Callable[..., Any] | None = getattr(module, forward, None)
    if not callable(method):
        raise ValueError(f"{type(module).__name__} has no method '{forward}'{did_you_mean(forward, methods(module))}")
    return method


def check_inputs(inputs: Any) -> Sequence[Any] | None:
    """Return what a probe returned. Raises ValueError if it is no sequence of arguments, and not None."""
    if inputs is None or isinstance(inputs, Sequence):
        return inputs
    raise ValueError(
        f"probe= must return a tuple of the arguments of one forward pass, such as (x,), but returns a "
        f"{type(inputs).__name__} (for arguments by name: forward=lambda module, inputs: module(**inputs))"
    )


def has_forward(module: nn.Module) -> bool:
    """Return whether a module can be called: its class has a forward."""
    return getattr(module.forward, "__func__", None) is not _MISSING


def methods(module: nn.Module) -> list[str]:
    """Return the names of the public methods that a module's own class adds to those of every module."""
    kind = type(module)
    names = [name for name in dir(kind) if not name.startswith("_") and not hasattr(nn.Module, name)]
    return [name for name in names if callable(getattr_static(kind, name))]


def with_forward(module: nn.Module, forward: Forward) -> nn.Module:
    """Return a module of the same submodules with that function as its method `RUN`, for code that traces it.

    Its `forward` stays, because the function may call it.
    """
    if forward == "forward":
        return module
    runner(module, forward)  # raises if there is no such method
    function = getattr(type(module), forward) if isinstance(forward, str) else forward
    view = copy.copy(module)
    view.__class__ = type(type(module).__name__, (type(module),), {RUN: function})
    return view


def unwrap(module: nn.Module) -> tuple[str, nn.Module]:
    """Return the module inside wrappers that only run it (torch.compile, DataParallel), and the prefix of its names."""
    for name in ("_orig_mod", "module") if isinstance(module, _WRAPPERS) or "_orig_mod" in module._modules else ():
        if (inner := module._modules.get(name)) is not None:
            prefix, innermost = unwrap(inner)
            return f"{name}.{prefix}", innermost
    return "", module
