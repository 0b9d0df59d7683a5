"""Analyses of a model's atoms: their share of the mixture, pruning, activation maps, parameter counts.

The weights are those of the mixture, w (…, atoms), as the forward pass uses them: after top-k, and in evaluation after
δ. Recording them costs one more tensor (…, atoms) per forward pass.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from supple.interventions.base import check_within
from supple.networks import evaluating

from .base import Adapter
from .lora import LoRA
from .mixture import MoELoRA
from .wrap import adapters, require_adapters

Maps = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Pruned:
    """The result of pruning one layer.

    Attributes:
        before, after: The number of atoms of each task.
        kept: The share of the activation mass that is left.
        mass: The mass of each atom that is left, (atoms,).
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    kept: float
    mass: Tensor


@contextmanager
def activation_mass(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Collect Σ w over the tokens of all forward passes in a with statement, by layer: float64 (atoms,).

        with activation_mass(model) as mass:
            train or evaluate
        prune(model, mass)

    Raises ValueError if the model has no adapters, or they have no atoms."""
    mixtures = _find_mixtures(model)
    mass = {name: torch.zeros(a.atoms, dtype=torch.float64, device=a.A.device) for name, a in mixtures.items()}
    with _watch(mixtures, lambda name, weights: mass[name].add_(weights.sum(0, dtype=torch.float64))):
        yield mass


@torch.no_grad()
def prune(model: nn.Module, mass: Mapping[str, Tensor], keep: float = 0.99) -> dict[str, Pruned]:
    """Keep, in every layer, the fewest atoms with this share of its activation mass (Table 19), and remove the others.

    The remaining atoms of the current task become new parameters. Make a new optimizer before training continues. The
    scores of the remaining atoms change, because eq. 5 normalises over all atoms.

    Args:
        mass: The result of `activation_mass`.
        keep: In (0, 1].

    Returns what was removed from each layer.

    Raises ValueError for a layer without mass, and for LoRA and its mixtures, whose atoms have
    no weights of their own. The model is then unchanged.
    """
    check_within("prune", keep=(keep, "(0, 1]"))
    mixtures = _find_mixtures(model)
    for name in mixtures:
        if not mass[name].sum() > 0:
            raise ValueError(f"prune: no token used an atom of '{name}': collect the mass on data that pass it")
    return {name: _prune(adapter, mass[name], keep) for name, adapter in mixtures.items()}


def _prune(adapter: Adapter, mass: Tensor, keep: float) -> Pruned:
    ordered, order = mass.sort(descending=True, stable=True)
    # an atom is kept while those before it carry less than the share asked for
    needed = ordered.cumsum(0) - ordered < keep * mass.sum()
    kept = torch.zeros_like(mass, dtype=torch.bool).scatter(0, order, needed & (ordered > 0))
    before, old = adapter.sizes, len(adapter.get_buffer("frozen_A"))
    for name in adapter.banks:
        frozen, current = adapter.get_buffer(f"frozen_{name}"), adapter.get_parameter(name)
        setattr(adapter, f"frozen_{name}", frozen[kept[:old]])
        remaining = current.detach()[kept[old:]]
        setattr(adapter, name, nn.Parameter(remaining, requires_grad=current.requires_grad and len(remaining) > 0))
    adapter.sizes = tuple(int(part.sum()) for part in kept.split(before))
    return Pruned(before, adapter.sizes, float(mass[kept].sum() / mass.sum()), mass[kept])


def activation_maps(model: nn.Module, run: Callable[[], object]) -> Maps:
    """Return the mixture weights of all tokens of `run()`, (tokens, atoms) by layer (Figures 3, 5).

    run: Makes one or more forward passes. They are made without gradients and in evaluation mode. A layer without
    tokens has shape (0, atoms).
    """
    mixtures = _find_mixtures(model)
    seen = {name: [torch.empty(0, adapter.atoms)] for name, adapter in mixtures.items()}
    keep = _watch(mixtures, lambda name, weights: seen[name].append(weights.float().cpu()))
    with torch.no_grad(), evaluating(model), keep:
        run()
    return {name: torch.cat(parts).numpy() for name, parts in seen.items()}


def parameter_table(model: nn.Module) -> list[dict[str, str | int]]:
    """Return one row for each adapter and one for their sum (Tables 3 and 11).

    The columns are `trainable` in the current task, `stored` for all tasks, and `activated` by one token (see
    `Adapter.activated_parameters`)."""
    rows: list[dict[str, str | int]] = []
    for name, adapter in adapters(model).items():
        counts = {
            "trainable": sum(p.numel() for p in adapter.parameters() if p.requires_grad),
            "stored": sum(adapter.bank(bank).numel() for bank in adapter.banks),
            "activated": adapter.activated_parameters(),
        }
        rows.append({"layer": name, "kind": type(adapter).__name__, **counts})
    sums = {column: sum(int(row[column]) for row in rows) for column in ("trainable", "stored", "activated")}
    return [*rows, {"layer": "all", "kind": "", **sums}]


def _find_mixtures(model: nn.Module) -> dict[str, Adapter]:
    """Return the adapters whose atoms have their own weights. Raises ValueError if there are others, or none."""
    mixtures = require_adapters(model)
    for name, adapter in mixtures.items():
        if isinstance(adapter, (LoRA, MoELoRA)):
            raise ValueError(f"'{name}' is {type(adapter).__name__}, whose atoms have no weights of their own")
        if not adapter.atoms:
            raise ValueError(f"'{name}' has no atoms yet: add_task(model) first")
    return mixtures


@contextmanager
def _watch(mixtures: Mapping[str, Adapter], call: Callable[[str, Tensor], object]) -> Iterator[None]:
    """Call `call(layer, weights)` with the weights of these layers, (tokens, atoms), in a with statement."""
    try:
        for name, adapter in mixtures.items():
            adapter.watch = lambda weights, name=name: call(name, weights.reshape(-1, weights.shape[-1]))
        yield
    finally:
        for adapter in mixtures.values():
            adapter.watch = None
