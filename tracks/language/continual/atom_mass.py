"""The use of atoms by tasks: pruning after each task, and maps (MoRAM, A.10, Table 19, Figure 5)."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from supple.engine.storage import files
from supple.tracks.language.adapters import activation_maps, activation_mass, adapters, prune

MAPS = "activation_maps.safetensors"


def prune_unused(
    model: nn.Module, keep: float, total: Mapping[str, Tensor], passes: Iterable[Sequence[Any]]
) -> tuple[dict[str, Tensor], float]:
    """Remove atoms with next to none of the activation mass of all tasks so far, at the end of a task.

    The paper accumulates the mass during training. Here it is the mass of one pass over the task's training data after
    training, with the mixture of training (no δ), which reflects the final atoms. The mass from earlier tasks is kept,
    so their data are not needed again.

    Args:
        model: A model with adapters.
        keep: The share of the mass that is kept, in (0, 1].
        total: The mass of the atoms over earlier tasks, by layer, (atoms,) float64.
        passes: The positional arguments of each forward pass on the last task's data.

    Returns the mass of the atoms that are left, and the share of atoms removed."""
    mode = model.training
    model.train()
    with torch.no_grad(), activation_mass(model) as mass:
        for arguments in passes:
            model(*arguments)
    model.train(mode)
    for name, earlier in total.items():
        mass[name][: len(earlier)] += earlier
    pruned = prune(model, mass, keep)
    before = sum(sum(layer.before) for layer in pruned.values())
    after = sum(sum(layer.after) for layer in pruned.values())
    return {name: layer.mass for name, layer in pruned.items()}, 1.0 - after / before


def write_maps(folder: Path, model: nn.Module, names: Sequence[str], passes: Iterable[Iterable[Sequence[Any]]]) -> None:
    """Write, for each layer, the mean mixture weight of each atom over the tokens of each task, (tasks, atoms).

    The file's metadata contain the names of the tasks, and the number of atoms that each task added to each layer.

    Args:
        folder: Where the file is written.
        model: A model with adapters.
        names: The names of the tasks.
        passes: For each task, the positional arguments of its forward passes, without padding.
    """
    rows: dict[str, list[Tensor]] = {}
    for of_task in passes:
        sums: dict[str, Tensor] = {}
        tokens: Counter[str] = Counter()
        for arguments in of_task:
            for layer, weights in activation_maps(model, partial(model, *arguments)).items():
                total = torch.from_numpy(weights).sum(0, dtype=torch.float64)
                sums[layer] = sums[layer] + total if layer in sums else total
                tokens[layer] += len(weights)
        for layer, total in sums.items():
            rows.setdefault(layer, []).append((total / tokens[layer]).float())
    sizes = {layer: list(adapter.sizes) for layer, adapter in adapters(model).items()}
    labels = {"maps": json.dumps({"tasks": list(names), "atoms": sizes})}  # of several labels the order is random
    files.replace(folder / MAPS, to_bytes({layer: torch.stack(means) for layer, means in rows.items()}, labels))
