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
from supple.engine.storage.restoring import require_like
from supple.tracks.language.adapters import activation_maps, activation_mass, adapters, prune

MAPS = "activation_maps.safetensors"


class Masses:
    """The activation mass of every atom over all tasks so far. At the end of each task, the share `keep` of it is kept.

    The paper accumulates the mass during training. Here it is the mass of one pass over the task's training data after
    training, with the mixture of training (no δ), which reflects the final atoms. The mass from earlier tasks is kept,
    so their data are not needed again.
    """

    def __init__(self, model: nn.Module, keep: float) -> None:
        self.model, self.keep = model, keep
        self.total: dict[str, Tensor] = {}  # by layer, (atoms,) float64

    def prune(self, passes: Iterable[Sequence[Any]]) -> float:
        """Add the masses of forward passes on the last task's data, and remove atoms with next to none.

        passes: The positional arguments of each.

        Return the share of atoms removed."""
        mode = self.model.training
        self.model.train()
        with torch.no_grad(), activation_mass(self.model) as mass:
            for arguments in passes:
                self.model(*arguments)
        self.model.train(mode)
        for name, earlier in self.total.items():
            mass[name][: len(earlier)] += earlier
        pruned = prune(self.model, mass, self.keep)
        self.total = {name: layer.mass for name, layer in pruned.items()}
        before = sum(sum(layer.before) for layer in pruned.values())
        return 1.0 - sum(sum(layer.after) for layer in pruned.values()) / before

    def state(self) -> dict[str, Tensor]:
        return dict(self.total)

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        device = next(self.model.parameters()).device
        atoms = {name: adapter.atoms for name, adapter in adapters(self.model).items()}
        for name, total in state.items():  # of as many atoms as there were when it was last counted
            require_like(total, torch.zeros(min(len(total), atoms[name]), dtype=torch.float64), f"the mass of {name}")
        self.total = {name: total.to(device) for name, total in state.items()}


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
