"""All that must not change when a network is looked at: taken deeply, and compared bit by bit.

Values are taken under paths such as `module.body.0.weight`; `differences` names the paths that changed, and how.
"""

import random
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

HOOKS = tuple(name for name in vars(nn.Module()) if "_hooks" in name)
# Attributes that are taken in their own way, or remade at will.
APART = {"_parameters", "_buffers", "_modules", "training", "_flat_weight_refs", *HOOKS}
REMADE = "._flat_weights"  # of recurrent layers: the list of their parameters, made again when one is assigned
DEPTH = 4  # of lists and dictionaries within each other
Path = str
Found = Iterator[tuple[Path, Any, Any]]  # path, comparable value, and the object, which is kept so that its id stays
State = dict[Path, tuple[Any, Any]]


def bits(tensor: Tensor) -> Any:
    """Return the bits of a tensor, in a form that can be compared."""
    flat = tensor.detach().contiguous().flatten()
    raw = flat.view(torch.uint8) if flat.numel() else flat
    return tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, raw.cpu().numpy().tobytes()


def _process() -> Found:
    """Yield the generators of PyTorch, NumPy and Python, and PyTorch's settings for the whole process."""
    name, key, *rest = np.random.get_state()  # noqa: NPY002
    everywhere = nn.modules.module
    hooks = len(everywhere._global_forward_hooks), len(everywhere._global_forward_pre_hooks)
    yield "generator of torch", torch.get_rng_state().numpy().tobytes(), None
    yield "generator of numpy", (name, np.asarray(key).tobytes(), *rest), None
    yield "generator of python", random.getstate(), None
    yield "modes", (torch.is_grad_enabled(), torch._C._len_torch_function_stack(), hooks), None


def _value(path: Path, value: Any, depth: int = 0) -> Found:
    """Yield any attribute: tensors, generators and plain values to the bit, other objects by identity."""
    if isinstance(value, Tensor):
        yield f"{path} (object)", (id(value), type(value)), value
        yield f"{path} (values)", bits(value), None
        yield f"{path} (requires_grad)", value.requires_grad, None
        gradient = value.grad if value.is_leaf else None
        yield f"{path} (gradient)", None if gradient is None else (id(gradient), bits(gradient)), gradient
    elif isinstance(value, torch.Generator):
        yield f"{path} (generator)", (id(value), value.get_state().numpy().tobytes()), value
    elif isinstance(value, np.ndarray):
        yield path, (id(value), value.dtype, value.shape, value.tobytes()), value
    elif isinstance(value, np.random.Generator):
        yield path, (id(value), repr(value.bit_generator.state)), value
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes, torch.dtype, torch.device)):
        yield path, (type(value), repr(value)), None
    elif isinstance(value, Mapping) and depth < DEPTH:
        yield path, (id(value), type(value), tuple(map(repr, value))), value
        for key, part in value.items():
            yield from _value(f"{path}[{key!r}]", part, depth + 1)
    elif isinstance(value, (Sequence, Set)) and depth < DEPTH:
        identity = () if isinstance(value, tuple) or path.endswith(REMADE) else (id(value),)
        yield path, (*identity, type(value), len(value)), value
        for index, part in enumerate(value if isinstance(value, Sequence) else sorted(value, key=repr)):
            yield from _value(f"{path}[{index}]", part, depth + 1)
    else:
        yield path, id(value), value


def _module(root: nn.Module, path: Path) -> Found:
    for name, part in root.named_modules(remove_duplicate=False):
        here = f"{path}.{name}" if name else path
        parts = tuple(part._parameters), tuple(part._buffers), [(key, id(own)) for key, own in part._modules.items()]
        yield f"{here} (module)", (id(part), type(part), parts), part
        yield f"{here} (training)", part.training, None
        yield f"{here} (hooks)", [tuple(getattr(part, hooks) or ()) for hooks in HOOKS], None
        attributes = {key: value for key, value in vars(part).items() if key not in APART}
        for key, value in {**part._parameters, **part._buffers, **attributes}.items():
            yield from _value(f"{here}.{key}", value)


def _optimizer(optimizer: torch.optim.Optimizer, path: Path, names: Mapping[int, str]) -> Found:
    for index, group in enumerate(optimizer.param_groups):
        yield f"{path}.param_groups[{index}]", tuple(map(id, group["params"])), list(group["params"])
        for key in group.keys() - {"params"}:
            yield from _value(f"{path}.param_groups[{index}][{key!r}]", group[key])
    for parameter, slots in optimizer.state.items():
        for slot, value in slots.items():
            yield from _value(f"{path}.state[{names.get(id(parameter), '?')}][{slot!r}]", value)
    for key in vars(optimizer).keys() - {"state", "param_groups"}:
        yield from _value(f"{path}.{key}", vars(optimizer)[key], DEPTH)


def take(
    module: nn.Module, *, inputs: Any = (), optimizer: torch.optim.Optimizer | None = None, learner: Any = None
) -> State:
    """Return the state of a network, of its inputs, its optimizer and its learner, and of the process."""
    found = [*_process(), *_module(module, "module"), *_value("inputs", inputs)]
    if optimizer is not None:
        found += _optimizer(optimizer, "optimizer", {id(p): name for name, p in module.named_parameters()})
    if learner is not None:
        for part in fields(learner):
            if not part.name.startswith("_"):  # private ones are caches, which a learner fills when it is first asked
                found += _value(f"learner.{part.name}", getattr(learner, part.name))
        for index, follower in enumerate(learner.followers):
            found += _module(follower, f"learner.followers[{index}]")
    return {path: (value, held) for path, value, held in found}


def differences(before: State, after: State) -> list[str]:
    """Return the paths whose values differ, exist no longer, or are new."""
    gone = [f"{path} is gone" for path in before.keys() - after.keys()]
    new = [f"{path} is new" for path in after.keys() - before.keys()]
    return [*(path for path in before if path in after and before[path][0] != after[path][0]), *gone, *new]
