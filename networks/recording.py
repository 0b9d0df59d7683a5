"""Temporary evaluation mode, and recording of the modules' outputs in one forward pass."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

After = Callable[[nn.Module, Any, Tensor], None]
Before = Callable[[nn.Module, Any], None]


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode temporarily, and restore the mode of every submodule afterwards.

    Otherwise random activations would draw from the generator of training, and running statistics would change.
    """
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def outputs_with(module: nn.Module, parameters: Mapping[str, Tensor], inputs: Sequence[Any]) -> Any:
    """Return `module(*inputs)` in evaluation mode, with the given parameters instead of its own.

    The module does not change. The result is differentiable with respect to the given values.
    """
    with evaluating(module):
        return functional_call(module, dict(parameters), tuple(inputs))


def run_hooked(
    module: nn.Module, inputs: Sequence[Any], after: Mapping[str, After], before: Mapping[str, Before] = {}
) -> None:
    """Run `module(*inputs)` in evaluation mode, with temporary hooks on its submodules, by name."""
    handles = [module.get_submodule(name).register_forward_hook(hook) for name, hook in after.items()]
    handles += [module.get_submodule(name).register_forward_pre_hook(hook) for name, hook in before.items()]
    try:
        with evaluating(module):
            module(*inputs)
    finally:
        for handle in handles:
            handle.remove()


@dataclass(frozen=True)
class Recording:
    """The inputs and outputs of the named modules in one forward pass, in forward order."""

    units: dict[str, Tensor]
    inputs: dict[str, Tensor]

    @property
    def features(self) -> Tensor:
        """The units of the last hidden layer: (rows, units), or (members, rows, units) for a stack."""
        return self.units[next(reversed(self.units))]


@torch.no_grad()
def record(module: nn.Module, names: Sequence[str], inputs: Sequence[Any]) -> Recording:
    """Run `module(*inputs)` in evaluation mode, and return the inputs and outputs of the named submodules."""
    outputs: dict[str, Tensor] = {}
    given: dict[str, Tensor] = {}

    def keep(name: str) -> After:
        return lambda _module, _inputs, output: outputs.__setitem__(name, output.detach())

    def note(name: str) -> Before:
        def hook(part: nn.Module, args: Any) -> None:
            if args and isinstance(args[0], Tensor):  # one that works in place will overwrite it
                given[name] = args[0].clone() if getattr(part, "inplace", False) else args[0]

        return hook

    run_hooked(module, inputs, {name: keep(name) for name in names}, {name: note(name) for name in names})
    return Recording({name: outputs[name] for name in names}, {name: given[name] for name in names if name in given})
