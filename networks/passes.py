"""Passes through a network that leave everything as it was: its mode, buffers and attributes, and all generators."""

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_STANDARD = frozenset(nn.Module().__dict__)  # attributes that every module has
_open: set[int] = set()  # ids of the modules, each without its submodules, that an enclosing `unchanged` keeps already


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


@contextmanager
def unchanged(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode temporarily, and restore everything that a forward pass may change.

    Even in evaluation mode a forward pass may count its calls, store features, update buffers of its own, renormalise
    an embedding (`max_norm`), or draw random numbers. Afterwards every submodule has its attributes, buffers and
    generators back, and so have the global generators of PyTorch, NumPy and Python. Parameters are the same objects.
    Compiled parts run uncompiled meanwhile, because compiled code does not call hooks.
    """
    parts = [part for part in module.modules() if id(part) not in _open]
    if not parts:
        yield
        return
    may_change = [part for part in parts if not _is_steady(part)]
    with ExitStack() as stack:
        stack.enter_context(evaluating(module))
        for part in parts:
            stack.callback(_open.discard, id(part))
            _open.add(id(part))
        if may_change:
            stack.enter_context(_global_generators_kept(module))
        for part in may_change:
            stack.callback(_keep(part))
        if any("_orig_mod" in part._modules or part._compiled_call_impl is not None for part in parts):
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield


def _is_steady(part: nn.Module) -> bool:
    """Return whether a pass in evaluation mode certainly leaves a module as it is, and draws no numbers.

    Those of PyTorch and of this package do, unless somebody hung a hook on them. Keeping their state would take as long
    as the pass through a small network.
    """
    # a lookup changes rows of the embedding; a recurrent layer remembers the tensors that it was run with
    remembers = getattr(part, "max_norm", None) is not None or isinstance(part, nn.RNNBase)
    return _is_known(type(part)) and not (remembers or part._forward_hooks or part._forward_pre_hooks)


def _is_known(kind: type[nn.Module]) -> bool:
    return kind.__module__.partition(".")[0] in ("torch", __name__.partition(".")[0])


@contextmanager
def _global_generators_kept(module: nn.Module) -> Iterator[None]:
    devices = {p.device.index for p in module.parameters() if p.device.type == "cuda"}
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        with torch.random.fork_rng([index or 0 for index in devices]):
            yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)


def _keep(part: nn.Module) -> Callable[[], object]:
    """Return a function that gives one module, without its submodules, its present state back."""
    if isinstance(part, torch.jit.ScriptModule):  # its attributes lie in C++, where they cannot be exchanged
        mode = part.training
        return lambda: setattr(part, "training", mode)
    attributes = part.__dict__
    groups: list[MutableMapping[str, Any]] = [attributes, part._parameters, part._buffers, part._modules]
    kept = [(group, dict(group)) for group in groups]
    own = [value for name, value in attributes.items() if name not in _STANDARD]
    renormed = part._parameters.values() if getattr(part, "max_norm", None) is not None else ()
    tensors = [value for value in (*part._buffers.values(), *own, *renormed) if isinstance(value, Tensor)]
    copies = [(tensor, tensor.detach().clone(), _version(tensor)) for tensor in tensors if tensor.device.type != "meta"]
    contents = [undo for value in own if (undo := _keep_contents(value))]

    def restore() -> None:
        for tensor, copy, version in copies:
            if version is None or tensor._version != version:
                with torch.no_grad():
                    tensor.detach().copy_(copy)
        for group, values in kept:
            group.clear()
            group.update(values)
        for undo in contents:
            undo()

    return restore


def _version(tensor: Tensor) -> int | None:
    """Return the number of changes of a tensor in place so far, or None if PyTorch does not count them."""
    return None if tensor.is_inference() else tensor._version


def _keep_contents(value: Any) -> Callable[[], object] | None:
    """Return a function that gives a generator or a container its present state back, and None for other objects."""
    if isinstance(value, torch.Generator):
        return partial(value.set_state, value.get_state())
    if isinstance(value, np.random.Generator):
        return partial(setattr, value.bit_generator, "state", value.bit_generator.state)
    if isinstance(value, random.Random):
        return partial(value.setstate, value.getstate())
    if isinstance(value, (list, deque, dict, set)):
        return partial(_refill, value, value.copy())
    return None


def _refill(container: Any, items: Any) -> None:
    container.clear()
    (container.update if isinstance(container, (dict, set)) else container.extend)(items)


def own_copies(module: nn.Module, inputs: Iterable[Any]) -> tuple[Any, ...]:
    """Return inputs that a module may write into: copies of tensors, unless it certainly writes into none."""
    if all(_is_steady(part) and not getattr(part, "inplace", False) for part in module.modules()):
        return tuple(inputs)
    return tuple(_copied(value) for value in inputs)


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_copied, value))
    return value


class NotExchangeable(ValueError):
    """A network cannot be run with other values than its own. The message is one line."""


def outputs_with(
    module: nn.Module, values: Mapping[str, Tensor], inputs: Iterable[Any], forward: Callable[..., Any] | None = None
) -> Any:
    """Return `module(*inputs)` in evaluation mode, with the given parameters and buffers instead of its own, by name.

    The module does not change. The result is differentiable with respect to the given parameters. A tensor that the
    module has under several names (tied weights, a body shared by two heads) is exchanged in all its places.
    forward: what is called instead of the module.

    Raises NotExchangeable (a ValueError) for a scripted module.
    """
    with unchanged(module), exchanged(module, values):
        return (forward or module)(*own_copies(module, inputs))


@contextmanager
def exchanged(module: nn.Module, values: Mapping[str, Tensor]) -> Iterator[None]:
    """Let a module use the given parameters and buffers temporarily. Unknown names are left out.

    `torch.func.functional_call` gives a module that is reachable under two names the wrong tensors back.
    """
    parts = list(module.modules())
    if any(isinstance(part, torch.jit.ScriptModule) for part in parts):
        raise NotExchangeable("a scripted module (torch.jit) cannot be run with other values: pass the original module")
    new: dict[Tensor, Tensor] = {p: values[name] for name, p in module.named_parameters() if name in values}
    # a copy, which a pass may write into
    new |= {b: values[name].clone() for name, b in module.named_buffers() if name in values}
    places: list[tuple[MutableMapping[str, Any], str, Tensor]] = []
    try:
        for part in parts:
            groups: tuple[MutableMapping[str, Any], ...] = (part._parameters, part._buffers)
            for group in groups:
                for name, tensor in group.items():
                    if tensor is not None and tensor in new:
                        places.append((group, name, tensor))
                        # an embedding with max_norm renormalises the rows that it reads, in place
                        renormed = getattr(part, "max_norm", None) is not None
                        group[name] = new[tensor].clone() if renormed else new[tensor]
        yield
    finally:
        for group, name, tensor in places:
            group[name] = tensor
