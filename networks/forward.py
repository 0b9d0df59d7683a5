"""The function that runs a network, where it is not its `forward`: a method by name, or a function of yours."""

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import getattr_static, signature
from typing import Any

from torch import Tensor, nn

from ..registry import did_you_mean

Forward = str | Callable[..., Any]  # the name of a method, or a function of the module and the inputs

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


def checked_inputs(inputs: Any) -> Sequence[Any] | None:
    """Return what a probe returned. Raises ValueError if it is no sequence of arguments, and not None."""
    if inputs is None or isinstance(inputs, Sequence):
        return inputs
    hint = {Tensor: ": (x,) for one tensor x"}.get(type(inputs), "")
    if isinstance(inputs, Mapping):
        hint = ": (inputs,), with forward=lambda module, inputs: module(**inputs)"
    raise ValueError(
        f"probe= must return a tuple of the arguments of one forward pass, but returns a {type(inputs).__name__}{hint}"
    )


def runs(module: nn.Module) -> bool:
    """Return whether a module can be called: its class has a forward."""
    return getattr(module.forward, "__func__", None) is not _MISSING


def methods(module: nn.Module) -> list[str]:
    """Return the names of the public methods that a module's own class adds to those of every module."""
    kind = type(module)
    names = [name for name in dir(kind) if not name.startswith("_") and not hasattr(nn.Module, name)]
    return [name for name in names if callable(getattr_static(kind, name))]


class Rerouted(nn.Module):
    """A module that runs another by a function, for code that traces `forward`."""

    def __init__(self, network: nn.Module, function: Callable[..., Any]) -> None:
        super().__init__()
        self.network, self.function = network, function


# by the number of inputs, because a traced function must have as many arguments
_RUNS: tuple[Callable[..., Any], ...] = (
    lambda self: self.function(self.network),
    lambda self, a: self.function(self.network, a),
    lambda self, a, b: self.function(self.network, a, b),
    lambda self, a, b, c: self.function(self.network, a, b, c),
    lambda self, a, b, c, d: self.function(self.network, a, b, c, d),
)


def traceable(module: nn.Module, forward: Forward) -> tuple[nn.Module, str]:
    """Return a module whose `forward` is that function, for code that traces `forward`, and the prefix in its names."""
    if forward == "forward":
        return module, ""
    if isinstance(forward, str):
        runner(module, forward)  # raises if there is no such method
        view = copy.copy(module)
        function = getattr(type(module), forward)
        view.__class__ = type(type(module).__name__, (type(module),), {"forward": function})
        return view, ""
    given = [p for p in signature(forward).parameters.values() if p.default is p.empty]
    count = min(len(given) - 1, len(_RUNS) - 1)
    kind = type("Rerouted", (Rerouted,), {"forward": _RUNS[count]})
    return kind(module, forward), "network"


def unwrapped(module: nn.Module) -> tuple[str, nn.Module]:
    """Return the module inside wrappers that only run it (torch.compile, DataParallel), and the prefix of its names."""
    for name in ("_orig_mod", "module") if isinstance(module, _WRAPPERS) or "_orig_mod" in module._modules else ():
        if (inner := module._modules.get(name)) is not None:
            prefix, innermost = unwrapped(inner)
            return f"{name}.{prefix}", innermost
    return "", module
