"""Passes through a network that leave everything as it was: its mode, buffers and attributes, and all generators."""

import random
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

Runner = Callable[..., Any]  # what runs a network in place of its own call
Undos = list[Callable[[], object]]  # each puts a part of a state back
LARGE = 2**20  # arrays of more numbers, such as a replay memory, are no state of a forward pass
MANY = 1000  # items of a container; those of longer ones are not looked into
DEPTH = 3  # of containers and objects within each other
_STANDARD = frozenset(nn.Module().__dict__)  # attributes that every module has
_known: dict[type, bool] = {}  # whether modules of a class are steady
_STEADY = ("torch.nn.modules.", "torch.nn.utils.")  # not those of torch.ao, whose observers watch every pass
_DRAWING = (nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)  # in evaluation mode, too
_open: set[int] = set()  # ids of the modules, each without its submodules, that an enclosing `unchanged` keeps already


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode temporarily, and restore the mode of every submodule afterwards.

    Otherwise random activations would draw from the generator of training, and running statistics would change. Its
    `eval` is not called, because networks override it: some merge adapters into their weights there.
    """
    modes = [(part, part.training) for part in module.modules()]
    try:
        for part, _ in modes:
            part.training = False
        yield
    finally:
        for part, mode in modes:
            part.training = mode


@contextmanager
def unchanged(module: nn.Module, forward: Runner | None = None) -> Iterator[None]:
    """Put a module into evaluation mode temporarily, and restore everything that a forward pass may change.

    Even in evaluation mode a forward pass may count its calls, store features, update buffers of its own, renormalise
    an embedding (`max_norm`), or draw random numbers. Afterwards every submodule has its attributes, buffers and
    generators back, and so have the global generators of PyTorch, NumPy and Python. Attributes have their contents
    back: containers, arrays of up to a million numbers, and the attributes of objects. Parameters are the same objects.
    Compiled parts run uncompiled meanwhile, because compiled code does not call hooks.

    Args:
        module: The network.
        forward: What is called instead of the module. It may draw random numbers itself.
    """
    parts = [part for part in module.modules() if id(part) not in _open]
    if not parts:
        yield
        return
    may_change = [part for part in parts if not _is_steady(part)]
    opened = set(map(id, parts))
    _open.update(opened)
    try:
        with evaluating(module), ExitStack() as stack:
            if may_change or (forward is not None and forward is not module):
                stack.enter_context(keep_generators(module))
            seen: set[int] = set()
            for part in may_change:
                for undo in _keep(part, seen):
                    stack.callback(undo)
            if any("_orig_mod" in part._modules or part._compiled_call_impl is not None for part in may_change):
                stack.enter_context(torch.compiler.set_stance("force_eager"))
            yield
    finally:
        _open.difference_update(opened)


@contextmanager
def measuring(module: nn.Module) -> Iterator[None]:
    """Let a measurement have the same numbers in whatever mode its caller is, and leave the global generators alone.

    Gradients are recorded (also in `torch.no_grad` and `torch.inference_mode`), and automatic mixed precision is off
    unless the network's own code asks for it.
    """
    kinds = {"cpu", *(p.device.type for p in module.parameters())}
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for kind in kinds:
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        stack.enter_context(keep_generators(module))
        yield


def leave_inference(inputs: Any) -> Any:
    """Return inputs of which gradients can be computed: copies of those that were made in `torch.inference_mode`."""
    return tree_map(lambda x: x.clone() if isinstance(x, Tensor) and x.is_inference() else x, inputs)


def _is_steady(part: nn.Module) -> bool:
    """Return whether a pass in evaluation mode certainly leaves a module as it is, and draws no numbers.

    Those of PyTorch and of this package do, unless somebody hung a hook on them. Keeping their state would take as long
    as the pass through a small network.
    """
    if (known := _known.get(type(part))) is None:
        ours = type(part).__module__.startswith((*_STEADY, f"{__name__.partition('.')[0]}."))
        # a recurrent layer remembers the tensors that it was run with
        known = _known[type(part)] = ours and not isinstance(part, (nn.RNNBase, *_DRAWING))
    # a lookup changes rows of an embedding with max_norm, and compiled code is not to run
    changes = part.__dict__.get("max_norm") is not None or part._compiled_call_impl is not None
    return known and not (changes or part._forward_hooks or part._forward_pre_hooks)


@contextmanager
def keep_generators(module: nn.Module | None = None) -> Iterator[None]:
    """Give the global generators of PyTorch (CPU and the module's GPUs), NumPy and Python back as they were."""
    parameters = () if module is None else module.parameters()
    devices = {p.device.index for p in parameters if p.device.type == "cuda"}
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        with torch.random.fork_rng([index or 0 for index in devices]):
            yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)


@contextmanager
def keep_states(sources: Iterable[torch.Generator]) -> Iterator[None]:
    """Let a block draw from these generators, and put their states back afterwards."""
    states = [(source, source.get_state()) for source in sources]
    try:
        yield
    finally:
        for source, state in states:
            source.set_state(state)


def _keep(part: nn.Module, seen: set[int]) -> Undos:
    """Return functions that give one module, without its submodules, its present state back.

    seen: ids of the objects that are kept already."""
    undos = [undo for group in (part._buffers, part.__dict__) for undo in _keep_contents(group, -1, seen)]
    renormed = part._parameters.values() if getattr(part, "max_norm", None) is not None else ()
    return [*undos, *(undo for tensor in renormed if tensor is not None for undo in _keep_tensor(tensor))]


def _keep_tensor(tensor: Tensor) -> Undos:
    version, copy = None if tensor.is_inference() else tensor._version, tensor.detach().clone()

    def restore() -> None:
        # PyTorch counts changes in place, except those of inference tensors
        if version is None or tensor._version != version:
            with torch.no_grad():
                tensor.detach().copy_(copy)

    return [restore]


def _keep_contents(value: Any, depth: int, seen: set[int]) -> Undos:
    """Return functions that give an attribute of a module its present contents back; none for what cannot change."""
    if isinstance(value, nn.Parameter | nn.Module) or id(value) in seen or value is None:
        return []
    if isinstance(value, Tensor):
        return _keep_tensor(value) if depth <= 0 or value.numel() <= LARGE else []
    if isinstance(value, np.ndarray):
        return [partial(np.copyto, value, value.copy())] if value.size <= LARGE and value.flags.writeable else []
    if isinstance(value, torch.Generator):
        return [partial(value.set_state, value.get_state())]
    if isinstance(value, np.random.Generator):
        return [partial(setattr, value.bit_generator, "state", value.bit_generator.state)]
    if isinstance(value, random.Random):
        return [partial(value.setstate, value.getstate())]
    seen.add(id(value))
    items: Collection[Any]
    if isinstance(value, (list, deque, dict, set)):
        items = value.values() if isinstance(value, dict) else value
        undos: Undos = [partial(_refill, value, value.copy())]
    elif isinstance(value, tuple):
        items, undos = value, []
    elif _is_record(value):
        items, undos = vars(value).values(), [partial(_refill, vars(value), dict(vars(value)))]
        depth += 1
    else:
        return []
    if depth < DEPTH and len(items) <= MANY:
        for item in list(items):
            undos += _keep_contents(item, depth + 1, seen)
    return undos


def _is_record(value: Any) -> bool:
    """Return whether an object keeps its state in attributes, as those of classes written in Python do."""
    kind = type(value)
    plain = isinstance(value, (type, ModuleType)) or kind.__module__.partition(".")[0] in ("torch", "builtins")
    return not plain and isinstance(getattr(value, "__dict__", None), dict)


def _refill(container: Any, items: Any) -> None:
    container.clear()
    (container.update if isinstance(container, (dict, set)) else container.extend)(items)


def copy_inputs(module: nn.Module, inputs: Iterable[Any]) -> tuple[Any, ...]:
    """Return inputs that a module may write into: copies of tensors, unless it certainly writes into none."""
    if all(_is_steady(part) and not part.__dict__.get("inplace", False) for part in module.modules()):
        return tuple(inputs)
    return tuple(tree_map(lambda x: x.clone() if isinstance(x, Tensor) else x, list(inputs)))


def outputs_with(
    module: nn.Module, values: Mapping[str, Tensor], inputs: Iterable[Any], forward: Runner | None = None
) -> Any:
    """Return `module(*inputs)` in evaluation mode, with the given parameters and buffers instead of its own, by name.

    The module does not change. The result is differentiable with respect to the given parameters. A tensor that the
    module has under several names (tied weights, a body shared by two heads) is exchanged in all its places.

    Args:
        module: The network.
        values: Parameters and buffers by name. Others keep their values.
        inputs: The positional arguments of the pass.
        forward: What is called instead of the module.
    """
    with unchanged(module, forward), exchange(module, values):
        return (forward or module)(*copy_inputs(module, inputs))


@contextmanager
def exchange(module: nn.Module, values: Mapping[str, Tensor]) -> Iterator[None]:
    """Let a module use the given parameters and buffers temporarily. Unknown names are left out.

    Also where a module keeps its parameters in a list or a dictionary, as recurrent layers do.

    `torch.func.functional_call` gives a module that is reachable under two names the wrong tensors back.
    """
    new: dict[Tensor, Tensor] = {p: values[name] for name, p in module.named_parameters() if name in values}
    # a copy, which a pass may write into
    new |= {b: values[name].clone() for name, b in module.named_buffers() if name in values}
    places: list[tuple[Any, Any, Tensor]] = []  # container, index, what is there
    try:
        for part in module.modules():
            held = [] if _is_steady(part) else [v for name, v in vars(part).items() if name not in _STANDARD]
            groups: list[Any] = [part._parameters, part._buffers, *(v for v in held if isinstance(v, (list, dict)))]
            for group in groups:
                for index, tensor in list(group.items() if isinstance(group, dict) else enumerate(group)):
                    if isinstance(tensor, Tensor) and tensor in new:
                        places.append((group, index, tensor))
                        # an embedding with max_norm renormalises the rows that it reads, in place
                        renormed = getattr(part, "max_norm", None) is not None
                        group[index] = new[tensor].clone() if renormed else new[tensor]
        yield
    finally:
        for group, index, tensor in reversed(places):
            group[index] = tensor
