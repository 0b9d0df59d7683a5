"""The state of a network as values: copied out of it, and written back in place."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from .state_dicts import match_names

Stacked = TypeVar("Stacked", bound=nn.Module)


def snapshot(module: nn.Module) -> dict[str, Tensor]:
    """Return a detached copy of every parameter and of every buffer that checkpoints contain, by qualified name.

    Buffers are part of the state: with batch normalisation, old weights and newer running statistics are a network that
    never existed. A tensor with several names is there once, as in `named_parameters`.
    """
    tensors = {**dict(module.named_parameters()), **saved_buffers(module)}
    with torch.inference_mode(False):  # copies made in it could not be part of a penalty
        return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return every parameter and buffer of a module by qualified name."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def names_by_parameter(module: nn.Module) -> dict[Tensor, str]:
    """Return the name of each parameter of a module, which for a shared one is the first."""
    return {parameter: name for name, parameter in module.named_parameters()}


def saved_buffers(module: nn.Module) -> dict[str, Tensor]:
    """Return the buffers that `state_dict` contains, by qualified name."""
    saved = module.state_dict()
    return {name: buffer for name, buffer in module.named_buffers() if name in saved}


def restore_(module: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Copy named values into a module's parameters and buffers, in place."""
    named = named_tensors(module)
    names = match_names(named, values)
    for name, value in values.items():
        named[names[name]].detach().copy_(value)


@torch.no_grad()
def copy_module_(target: nn.Module, source: nn.Module) -> None:
    """Copy every parameter and saved buffer of `source` into `target`, in place."""
    for old, new in pair_tensors(target, source):
        old.copy_(new)


def pair_tensors(target: nn.Module, source: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """Return the parameters and saved buffers of two modules of one architecture, in pairs.

    Their order counts, not their names: TorchRL's target parameters are the buffers of a module without parts.
    Raises ValueError if their numbers or shapes differ.
    """
    theirs, ours = (
        [value for value in module.state_dict(keep_vars=True).values() if isinstance(value, Tensor)]
        for module in (target, source)
    )
    if [value.shape for value in theirs] != [value.shape for value in ours]:
        raise ValueError(f"a {type(target).__name__} cannot follow a {type(source).__name__}: its tensors are others")
    return list(zip(theirs, ours, strict=True))


def stack_networks(networks: Sequence[Stacked], make: Callable[[int], Stacked]) -> Stacked:
    """Return a stack of networks of one shape, with copies of their parameters and buffers, in order.

    Args:
        networks: The networks.
        make: Returns a stack of a number of networks. What it draws is overwritten, and no generator moves.

    Raises KeyError or RuntimeError if the stack has other parameters, or other sizes.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        stack = make(len(networks))
        states = [network.state_dict() for network in networks]
        for name, tensor in stack.state_dict().items():
            tensor.copy_(torch.stack([state[name] for state in states]).view_as(tensor))
    return stack


def check_values(module: nn.Module, name: str) -> None:
    """Raise ValueError for a network, called `name`, that cannot be looked into, or whose parameters have no values."""
    if any(isinstance(part, torch.jit.ScriptModule) for part in module.modules()):
        raise ValueError(f"'{name}' is scripted (torch.jit), and cannot be looked into: pass the original module")
    for parameter, p in module.named_parameters():
        if is_lazy(p) or p.is_meta:
            raise ValueError(
                f"'{name}': '{parameter}' has no values (a lazy layer, or the meta device): run the network once, or "
                "load it, before"
            )
