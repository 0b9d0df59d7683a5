"""The parameters of a network as values: copied out of it, and written back in place."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn


def snapshot(module: nn.Module) -> dict[str, Tensor]:
    """Return a detached copy of every parameter, by qualified name."""
    return {name: p.detach().clone() for name, p in module.named_parameters()}


def restore_(module: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Copy named values into a module's parameters, in place."""
    named = dict(module.named_parameters())
    for name, value in values.items():
        named[name].detach().copy_(value)


@torch.no_grad()
def copy_module_(target: nn.Module, source: nn.Module) -> None:
    """Copy every parameter and buffer of `source` into `target`, in place."""
    pairs = [(target.parameters(), source.parameters()), (target.buffers(), source.buffers())]
    for theirs, ours in pairs:
        for old, new in zip(theirs, ours, strict=True):
            old.copy_(new)
