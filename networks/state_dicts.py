"""State dicts from other people's files and functions: given the names of a network, or refused in one line."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..registry import brief

WRAPPERS = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")  # parts of names that they add
COUNTER = "num_batches_tracked"  # of BatchNorm, which files from before PyTorch 0.4.1 lack


def fit_state(values: Any, module: nn.Module, what: str) -> dict[str, Tensor]:
    """Return a state dict as new tensors under the module's own names, on its devices and in its types.

    The parts that DataParallel (`module.`) and torch.compile (`_orig_mod.`) add to names are not compared. A tied
    tensor may have any of its names.

    Args:
        values: The state dict: parameters and persistent buffers by name.
        module: The network, which does not change.
        what: Name of the state dict in error messages.

    Raises:
        ValueError: It is no state dict, names or shapes differ from the module's, or values are missing (on the meta
            device); the message names the first of these.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"{what} is no state dict, but {_kind(values)}")
    for name, value in values.items():
        if not isinstance(name, str):
            raise ValueError(f"{what} is no state dict: its {name!r} is {_kind(name)}, not a name")
        if not isinstance(value, Tensor):
            raise ValueError(f"{what} is no state dict: its {name!r} is {_kind(value)}, not a tensor")
        if value.layout is not torch.strided or value.is_quantized:
            kind = str(value.dtype if value.is_quantized else value.layout).removeprefix("torch.")
            raise ValueError(f"{what} cannot be read: its {name!r} is {kind}: give dense tensors")
        if value.is_meta:
            raise ValueError(f"{what} has no values: its {name!r} is on the meta device")
    kind = type(module).__name__
    own = {name: tensor for name, tensor in module.state_dict(keep_vars=True).items() if isinstance(tensor, Tensor)}
    names = _match(values, own)
    where: dict[int, str] = {}  # tensor → the first of its names that is given
    for name in names:
        where.setdefault(id(own[name]), name)
    missing = [name for name, tensor in own.items() if id(tensor) not in where and not name.endswith(COUNTER)]
    spare = sorted(values.keys() - names.values())
    if missing or spare:
        parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
        hint = (
            ": give module.state_dict(), which also has the buffers" if missing and not parameters & {*missing} else ""
        )
        raise ValueError(f"{what} does not fit {kind}: {_difference(missing, spare)}{hint}")
    for name, given in names.items():
        if values[given].shape != own[name].shape:
            shapes = f"{(*values[given].shape,)}, not {(*own[name].shape,)}"
            raise ValueError(f"{what} does not fit {kind}: size mismatch for '{name}': {shapes}")
        if values[given].is_complex() and not own[name].is_complex():
            raise ValueError(f"{what} does not fit {kind}: '{name}' has complex numbers there, real ones in {kind}")
        first = names[where[id(own[name])]]
        if first != given and not torch.equal(values[first], values[given]):  # NaN would differ from itself
            raise ValueError(
                f"{what} does not fit {kind}: '{where[id(own[name])]}' and '{name}' differ, but are one tensor there"
            )
    found = {name: names[where[id(tensor)]] for name, tensor in own.items() if id(tensor) in where}
    return {name: values[given].detach().to(own[name], copy=True) for name, given in found.items()}


def list_names(names: Collection[str], count: int = 3) -> str:
    """Return the first of these names in words, and the number of the others."""
    shown = ", ".join(f"'{brief(name)}'" for name in list(names)[:count])
    return shown + (f" and {len(names) - count} more" if len(names) > count else "")


def _match(values: Iterable[str], own: Iterable[str]) -> dict[str, str]:
    """Return own name → given name, for names that are equal, or equal without what wrappers add."""
    given, wanted = set(values), set(own)
    found = {name: name for name in wanted & given}
    bare = {bare_name(name): name for name in given - wanted}
    return {name: match for name in own if (match := found.get(name) or bare.get(bare_name(name)))}


def bare_name(name: str) -> str:
    """Return the name of a parameter without what DataParallel, torch.compile and the like add to it."""
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)


def _difference(missing: Collection[str], spare: Collection[str]) -> str:
    lacks = f"it lacks {list_names(missing)}" if missing else ""
    has = f"it has {list_names(spare)}, which the network has not" if spare else ""
    return ", and ".join(filter(None, (lacks, has)))


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
