"""The state of a network as values: copied out of it, and written back in place."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn


def snapshot(module: nn.Module) -> dict[str, Tensor]:
    """Return a detached copy of every parameter and of every buffer that checkpoints contain, by qualified name.

    Buffers are part of the state: with batch normalisation, old weights and newer running statistics are a network that
    never existed. A tensor with several names is there once, as in `named_parameters`.
    """
    tensors = {**dict(module.named_parameters()), **saved_buffers(module)}
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def saved_buffers(module: nn.Module) -> dict[str, Tensor]:
    """Return the buffers that `state_dict` contains, by qualified name."""
    passing = {
        buffer
        for part in module.modules()
        for name, buffer in part._buffers.items()
        if buffer is not None and name in part._non_persistent_buffers_set
    }
    return {name: buffer for name, buffer in module.named_buffers() if buffer not in passing}


def restore_(module: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Copy named values into a module's parameters and buffers, in place."""
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for name, value in values.items():
        named[name].detach().copy_(value)


@torch.no_grad()
def copy_module_(target: nn.Module, source: nn.Module) -> None:
    """Copy every parameter and buffer of `source` into `target`, in place."""
    pairs = [(target.parameters(), source.parameters()), (target.buffers(), source.buffers())]
    for theirs, ours in pairs:
        for old, new in zip(theirs, ours, strict=True):
            old.copy_(new)
