"""The state of a network as values: copied out of it, and written back in place."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
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


def is_expanded(tensor: Tensor) -> bool:
    """Return whether several entries of a tensor are one number in memory."""
    if tensor.layout is not torch.strided:
        return False
    return any(step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True))


def find_shared_memory(module: nn.Module) -> tuple[str, str] | None:
    """Return the names of two parameters that are not one object, but have numbers in memory in common, if any."""
    spans: list[tuple[int, int, str, Tensor]] = []
    for name, parameter in module.named_parameters():
        tensor = parameter.detach()
        if type(tensor) is Tensor and tensor.layout is torch.strided and tensor.numel() and not tensor.is_meta:
            last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
            spans.append((tensor.data_ptr(), tensor.data_ptr() + last * tensor.itemsize, name, tensor))
    spans.sort(key=lambda span: span[:2])
    for (_, end, name, tensor), (start, _, other, second) in pairwise(spans):
        if start <= end and tensor.device == second.device and _in_common(tensor, second):
            names = [p for p, _ in module.named_parameters() if p in (name, other)]
            return names[0], names[1]
    return None


def find_part_around_itself(module: nn.Module) -> str:
    """Return the name of a part of a module that is also a module around that part, or "".

    PyTorch looks through such a module, but cannot copy or save it.
    """
    around: set[nn.Module] = set()
    done: set[nn.Module] = set()

    def look(part: nn.Module, name: str) -> str:
        if part in done:
            return ""
        if part in around:
            return name
        around.add(part)
        below = (look(child, f"{name}.{own}") for own, child in part.named_children())
        first = next(filter(None, below), "")
        around.remove(part)
        done.add(part)
        return first

    return look(module, "").removeprefix(".")


def _in_common(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors of one storage have an entry in common. They may also alternate."""
    if a.dtype != b.dtype:
        return True
    places = torch.arange(a.untyped_storage().nbytes() // a.itemsize)
    first, second = (places.as_strided(t.shape, t.stride(), t.storage_offset()).flatten() for t in (a, b))
    return bool(torch.isin(first, second).any())


def check_values(module: nn.Module, name: str) -> None:
    """Raise ValueError for a network, called `name`, whose parameters have no values, or none of their own."""
    if not hasattr(module, "_modules"):
        raise ValueError(f"'{name}' has no parts: the __init__ of {type(module).__name__} must call super().__init__()")
    if inner := find_part_around_itself(module):
        raise ValueError(f"'{name}' contains itself: its part '{inner}' is one of the modules around it")
    if any(isinstance(part, torch.jit.ScriptModule) for part in module.modules()):
        raise ValueError(f"'{name}' is scripted (torch.jit), and cannot be looked into: pass the original module")
    for parameter, p in module.named_parameters():
        if is_lazy(p):
            raise ValueError(f"'{name}': '{parameter}' of a lazy layer has no values yet: run the network once before")
        if p.is_meta:
            raise ValueError(f"'{name}': '{parameter}' is on the meta device and has no values: load the network first")
        if p.is_inference():
            raise ValueError(
                f"'{name}': '{parameter}' was made under torch.inference_mode() and cannot be trained or rewritten: "
                "make the network outside of it"
            )
        if is_expanded(p):
            raise ValueError(
                f"'{name}': several entries of '{parameter}' are one number (expand), so it cannot be rewritten: make "
                "it contiguous"
            )
    if pair := find_shared_memory(module):
        first, second = pair
        raise ValueError(
            f"'{name}': '{first}' and '{second}' share memory, but are two parameters: an optimizer would step it "
            "twice. Tie the parameters themselves (one nn.Parameter under both names)"
        )
