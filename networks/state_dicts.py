"""State dicts from other people's files and functions: given the names of a network, or refused in one line."""

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn

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
        ValueError: It is no state dict, or names or shapes differ from the module's; the message names the first.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"{what} is no state dict, but {_kind(values)}")
    for name, value in values.items():
        if not isinstance(value, Tensor):
            raise ValueError(f"{what} is no state dict: its {name!r} is {_kind(value)}, not a tensor")
    tensors = {name: value for name, value in module.state_dict(keep_vars=True).items() if isinstance(value, Tensor)}
    names = match_names(values, tensors)
    where = {id(tensors[name]): name for name in reversed(names)}  # tensor → the first of its names that is given
    missing = [name for name, tensor in tensors.items() if id(tensor) not in where and not name.endswith(COUNTER)]
    spare = sorted(values.keys() - names.values())
    misfit = f"{what} does not fit {type(module).__name__}"
    if missing or spare:
        lacks = f"it lacks {list_names(missing)}" if missing else ""
        has = f"it has {list_names(spare)}, which the network has not" if spare else ""
        raise ValueError(f"{misfit}: {', and '.join(filter(None, (lacks, has)))}")
    for name, theirs in names.items():
        if values[theirs].shape != tensors[name].shape:
            shapes = f"{(*values[theirs].shape,)}, not {(*tensors[name].shape,)}"
            raise ValueError(f"{misfit}: size mismatch for '{name}': {shapes}")
        first = names[where[id(tensors[name])]]
        if first != theirs and not torch.equal(values[first], values[theirs]):  # NaN would differ from itself
            raise ValueError(f"{misfit}: '{where[id(tensors[name])]}' and '{name}' differ, but are one tensor there")
    sources = {name: names[where[id(tensor)]] for name, tensor in tensors.items() if id(tensor) in where}
    return {name: values[source].detach().to(tensors[name], copy=True) for name, source in sources.items()}


def list_names(names: Collection[str], count: int = 3) -> str:
    """Return the first of these names in words, and the number of the others."""
    shown = ", ".join(f"'{name}'" for name in list(names)[:count])
    return shown + (f" and {len(names) - count} more" if len(names) > count else "")


def match_names(values: Collection[str], tensors: Collection[str]) -> dict[str, str]:
    """Return name in `tensors` → name in `values`, for names that are equal, or equal without what wrappers add.

    Wrappers are DataParallel, torch.compile and the like (`module.0.weight`, `_orig_mod.0.weight`)."""
    bare = {bare_name(name): name for name in values if name not in tensors}
    matches = {name: name if name in values else bare.get(bare_name(name)) for name in tensors}
    return {name: match for name, match in matches.items() if match is not None}


def bare_name(name: str) -> str:
    """Return the name of a parameter without what DataParallel, torch.compile and the like add to it."""
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
