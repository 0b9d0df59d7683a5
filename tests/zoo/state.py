"""All that must not change when a network is looked at: taken deeply, and compared bit by bit.

Values are taken under paths such as `module.body.0.weight`; `differences` names the paths that changed, and how.
"""

import random
import weakref
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

HOOKS = (
    *("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"),
    *("_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs", "_forward_hooks_always_called"),
    *("_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
)
# Attributes that are taken in their own way, or remade at will.
APART = {"_parameters", "_buffers", "_modules", "training", "_flat_weight_refs", *HOOKS}
REMADE = "._flat_weights"  # of recurrent layers: the list of their parameters, made again when one is assigned
DEPTH = 4  # of lists and dictionaries within each other
Path = str


@dataclass
class State:
    """What was found, by path: comparable values, and the objects, which are kept so that their ids stay their own."""

    values: dict[Path, Any] = field(default_factory=dict)
    objects: dict[Path, Any] = field(default_factory=dict)


def bits(tensor: Tensor) -> Any:
    """Return the bits of a tensor, in a form that can be compared."""
    if nn.parameter.is_lazy(tensor):
        return "lazy"
    if tensor.is_meta:
        return ("meta", tuple(tensor.shape), tensor.dtype)
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    flat = tensor.detach().contiguous().flatten()
    raw = flat.view(torch.uint8) if flat.numel() else flat
    return tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, raw.cpu().numpy().tobytes()


def generator_states() -> dict[Path, Any]:
    """Return the states of the generators of PyTorch, NumPy and Python."""
    name, key, *rest = np.random.get_state()  # noqa: NPY002
    return {
        "generator of torch": torch.get_rng_state().numpy().tobytes(),
        "generator of numpy": (name, np.asarray(key).tobytes(), *rest),
        "generator of python": random.getstate(),
    }


def process_state() -> dict[Path, Any]:
    """Return PyTorch's settings for the whole process."""
    everywhere = nn.modules.module
    return {
        "default dtype": torch.get_default_dtype(),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "anomaly mode": torch.is_anomaly_enabled(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "function modes": torch._C._len_torch_function_stack(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
        "hooks on all modules": tuple(
            len(getattr(everywhere, name)) for name in ("_global_forward_hooks", "_global_forward_pre_hooks")
        ),
        "Module.__call__": (id(nn.Module.__call__), id(nn.Module._call_impl), id(nn.Module.__setattr__)),
    }


class _Taker:
    """Walks through objects and takes what it finds."""

    def __init__(self) -> None:
        self.state = State()

    def put(self, path: Path, value: Any, held: Any = None) -> None:
        self.state.values[path] = value
        if held is not None:
            self.state.objects[path] = held

    def tensor(self, path: Path, tensor: Tensor) -> None:
        self.put(f"{path} (object)", (id(tensor), type(tensor)), tensor)
        self.put(f"{path} (values)", bits(tensor))
        self.put(f"{path} (requires_grad)", tensor.requires_grad)
        if tensor.is_leaf:
            gradient = tensor.grad
            self.put(f"{path} (gradient)", None if gradient is None else (id(gradient), bits(gradient)), gradient)

    def value(self, path: Path, value: Any, depth: int = 0) -> None:
        """Take any attribute: tensors, generators and plain values to the bit, other objects by identity."""
        if isinstance(value, Tensor):
            self.tensor(path, value)
        elif isinstance(value, torch.Generator):
            self.put(f"{path} (generator)", (id(value), value.get_state().numpy().tobytes()), value)
        elif isinstance(value, np.ndarray):
            self.put(path, (id(value), value.dtype, value.shape, value.tobytes()), value)
        elif isinstance(value, np.random.Generator):
            self.put(path, (id(value), repr(value.bit_generator.state)), value)
        elif value is None or isinstance(value, (bool, int, float, complex, str, bytes, torch.dtype, torch.device)):
            self.put(path, (type(value), repr(value)))
        elif isinstance(value, weakref.ref):
            self.put(path, id(value()), value())
        elif isinstance(value, nn.Module):
            self.put(path, id(value), value)  # its own parts are found where modules are walked through
        elif isinstance(value, Mapping) and depth < DEPTH:
            self.put(path, (id(value), type(value), tuple(map(repr, value))), value)
            for key, part in value.items():
                self.value(f"{path}[{key!r}]", part, depth + 1)
        elif isinstance(value, (Sequence, Set)) and depth < DEPTH:
            identity = () if isinstance(value, tuple) or path.endswith(REMADE) else (id(value),)
            self.put(path, (*identity, type(value), len(value)), value)
            for index, part in enumerate(value if isinstance(value, Sequence) else sorted(value, key=repr)):
                self.value(f"{path}[{index}]", part, depth + 1)
        else:
            self.put(path, id(value), value)

    def module(self, root: nn.Module, path: Path) -> None:
        for name, part in root.named_modules(remove_duplicate=False):
            here = f"{path}.{name}" if name else path
            self.put(f"{here} (module)", (id(part), type(part)), part)
            self.put(f"{here} (training)", part.training)
            for kind in ("_parameters", "_buffers"):
                tensors = getattr(part, kind)
                self.put(f"{here} ({kind[1:]})", tuple(tensors))
                for key, tensor in tensors.items():
                    self.value(f"{here}.{key}", tensor)
            self.put(f"{here} (modules)", tuple((key, id(child)) for key, child in part._modules.items()))
            for hooks in HOOKS:
                found = getattr(part, hooks, {})
                self.put(f"{here} ({hooks[1:]})", tuple(found), list(found.values()) if hasattr(found, "values") else 0)
            for key, attribute in vars(part).items():
                if key not in APART:
                    self.value(f"{here}.{key}", attribute)

    def optimizer(self, optimizer: torch.optim.Optimizer, path: Path, names: Mapping[int, str]) -> None:
        self.put(f"{path} (optimizer)", id(optimizer), optimizer)
        for index, group in enumerate(optimizer.param_groups):
            self.value(f"{path}.param_groups[{index}]", {k: v for k, v in group.items() if k != "params"} | {"": 0}, 1)
            self.put(f"{path}.param_groups[{index}]['params']", tuple(map(id, group["params"])), list(group["params"]))
        self.state.values = {k: v for k, v in self.state.values.items() if not k.endswith("['']")}
        self.put(f"{path}.state", tuple(sorted(id(p) for p in optimizer.state)), list(optimizer.state))
        for parameter, slots in optimizer.state.items():
            self.value(f"{path}.state[{names.get(id(parameter), '?')}]", dict(slots) | {})
        for key, attribute in vars(optimizer).items():
            if key not in ("state", "param_groups"):
                self.value(f"{path}.{key}", attribute, DEPTH)


def take(
    module: nn.Module, *, inputs: Any = (), optimizer: torch.optim.Optimizer | None = None, learner: Any = None
) -> State:
    """Return the state of a network, of its inputs, its optimizer and its learner, and of the process."""
    taker = _Taker()
    for path, value in {**generator_states(), **process_state()}.items():
        taker.put(path, value)
    taker.module(module, "module")
    taker.value("inputs", inputs)
    names = {id(p): name for name, p in module.named_parameters()}
    if optimizer is not None:
        taker.optimizer(optimizer, "optimizer", names)
    if learner is not None:
        assert is_dataclass(learner)
        for part in fields(learner):
            # private ones are caches, which a learner fills when it is first asked
            if not part.name.startswith("_") and part.name not in ("module", "optimizer"):
                taker.value(f"learner.{part.name}", getattr(learner, part.name))
        for index, follower in enumerate(learner.followers):
            taker.module(follower, f"learner.followers[{index}]")
        taker.put("learner.module", id(learner.module))
        taker.put("learner.optimizer", id(learner.optimizer))
    state = taker.state
    # dictionaries that were made here to be taken have no identity of their own
    for path in [p for p in state.values if p.startswith(("optimizer.state[", "optimizer.param_groups["))]:
        if isinstance(state.values[path], tuple) and state.values[path][1:2] == (dict,):
            state.values[path] = state.values[path][1:]
    return state


def differences(before: State, after: State) -> list[str]:
    """Return the paths whose values differ, exist no longer, or are new."""
    found = []
    for path in before.values | after.values:
        if path not in after.values:
            found.append(f"{path} is gone")
        elif path not in before.values:
            found.append(f"{path} is new")
        elif before.values[path] != after.values[path]:
            found.append(path)
    return found


def besides(found: Sequence[str], *allowed: str) -> Iterator[str]:
    """Yield the differences whose paths do not begin with what is allowed."""
    yield from (path for path in found if not path.startswith(allowed))
