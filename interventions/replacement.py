"""The base class of CBP and SNR, which look at the units after updates and reinitialise single ones."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from supple.networks import Learner
from supple.networks.hidden_units import Hidden, hidden_units, observe
from supple.networks.members import drawing_for, seeds_with

from .base import Intervention, check_within
from .contract import ResetContract, check_optimizer, zero_slots_
from .recycle import describe_reach, recycle_


class Replacement(Intervention, ABC):
    """The base class of interventions that score units after updates and reinitialise single ones (cbp, snr)."""

    effect: str  # what happens to the weights, for reports
    reuse: int = 0  # updates for which one draw of fresh parameters may serve

    def __init__(self, who: str, period: int) -> None:
        check_within(who, period=(period, "[1, ∞)"))
        self.period = period
        self.saved = {}  # by learner

    @abstractmethod
    def statistic(self, activations: Tensor) -> Tensor:
        """Return the statistic of the outputs that the intervention needs: (…, rows, units) → a tensor."""

    @abstractmethod
    def begin(self, group: Hidden, device: torch.device) -> dict[str, Any]:
        """Return the initial memory for the units of a layer: tensors, numbers and lists."""

    @abstractmethod
    def choose(
        self, learner: Learner, groups: Mapping[str, Hidden], states: Mapping[str, dict[str, Any]],
        seen: Mapping[str, Tensor],
    ) -> dict[str, Tensor]:  # fmt: skip
        """Update the memory with a new statistic, and return the units to reinitialise, if any.

        Args:
            learner: The learner.
            groups: The layers of units, by name.
            states: The memory of each, from `begin`; changed here.
            seen: The `statistic` of each layer that the inputs reach, (…, units) in its last axes.

        Returns:
            Name → mask, (units,) or (members, units); layers without such a unit may be left out.
        """

    def attach(self, learner: Learner) -> None:
        check_optimizer(learner.optimizer, entries=True)
        hidden_units(learner, self.name)
        self.saved.setdefault(learner.name, _new_memory())

    def after_update(self, learner: Learner) -> None:
        memory = self.saved.setdefault(learner.name, _new_memory())
        memory["updates"] += 1
        if memory["updates"] % self.period or (inputs := (learner.last_inputs or learner.probe)()) is None:
            return
        groups = hidden_units(learner, self.name)
        with torch.no_grad():
            seen = observe(learner, groups, inputs, self.statistic)
            device = next(learner.module.parameters()).device
            units, states = memory["units"], {}
            for name in seen:
                key = learner.identity(name)
                old = units[key] if key in units else self.begin(groups[name], device)
                states[name] = units[key] = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in old.items()}
            masks = self.choose(learner, groups, states, seen)
            if not masks:
                return
            check_optimizer(learner.optimizer, entries=True)
            with drawing_for(learner, seeds_with(learner, masks.values())):
                fresh = self._draw_fresh(learner, memory, groups)
            written = recycle_(learner.module, masks, learner.wiring, fresh)
            if learner.optimizer is not None:
                named = dict(learner.module.named_parameters())
                zero_slots_(learner.optimizer, [named[n] for n in written], list(written.values()), counters=False)
            counts = [mask.sum(-1) for mask in masks.values()]
            memory["replaced"] = memory["replaced"].to(device) + sum(counts[1:], counts[0])

    def _draw_fresh(
        self, learner: Learner, memory: dict[str, Any], groups: Mapping[str, Hidden]
    ) -> Mapping[str, Tensor]:
        """Return new parameters from which to take rows."""
        if memory["updates"] < memory["fresh_until"] and memory["fresh_of"] == learner.changes:
            device = next(learner.module.parameters()).device
            memory["fresh"] = {name: value.to(device) for name, value in memory["fresh"].items()}
            return memory["fresh"]
        fresh = {**learner.initial, **learner.redraw()}
        if self.reuse:
            layers = {
                name for group in groups.values() for name in (*group.wires.incoming, *group.wires.norms, group.name)
            }
            memory["fresh"] = {name: value for name, value in fresh.items() if name.rpartition(".")[0] in layers}
            memory["fresh_until"], memory["fresh_of"] = memory["updates"] + self.reuse, list(learner.changes)
        return fresh

    def numbers(self, learner: Learner) -> dict[str, Tensor]:
        memory = self.saved.get(learner.name)
        return {f"{self.name}_replaced": memory["replaced"]} if memory else {}

    def contract(self, learner: Learner) -> dict[str, str]:
        columns = {"optimizer state": "slots of the rewritten entries zeroed in place, step counters kept"}
        return ResetContract(target="kept").describe(describe_reach(self.effect, learner, self.name), learner, columns)


def _new_memory() -> dict[str, Any]:
    none = torch.zeros((), dtype=torch.long)
    return {"updates": 0, "replaced": none, "units": {}, "fresh": {}, "fresh_until": 0, "fresh_of": []}
