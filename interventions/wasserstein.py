"""The Wasserstein initial regulariser (Lewandowski et al. 2024, "Learning continually by spectral regularization",
arXiv 2406.06811v1; "Curvature explains loss of plasticity", arXiv 2312.00246).

    L ← L + λ·Σ (sort θ − sort θ₀)²   over every entry of every parameter tensor, each sorted for itself

keeps the distribution of a tensor's entries near that of its initial values, but leaves each entry free to go where
another one came from: the squared 2-Wasserstein distance of the two, times the number of entries. It resets nothing.

Released code differs in what it divides by: parseval_reg (wechu/parseval_reg, parseval_reg/agent.py) takes the mean
over each tensor's entries, Juliani & Ash (awjuliani/deep-rl-plasticity, algos/ppo/trainer.py) the root of the sum over
all. Each member of a stack has a distribution of its own. Cost: every parameter sorted once per update, and a sorted
copy of θ₀.
"""

import torch
from torch import Tensor

from ..networks.learner import Learner
from ..networks.members import members_of, of_each
from .base import Intervention, interventions


@interventions.register("wasserstein")
class Wasserstein(Intervention):
    """Penalty strength·Σ(sort θ − sort θ₀)² on every parameter (Lewandowski et al. 2024); strengths as of `l2_init`."""

    def __init__(self, strength: float = 1e-3) -> None:
        if not 0.0 <= strength < float("inf"):
            raise ValueError(f"wasserstein: strength must be finite and ≥ 0, got {strength}")
        self.strength = strength
        self._starts: dict[str, tuple[dict[str, Tensor], dict[str, Tensor]]] = {}  # θ₀, and sorted

    def penalty(self, learner: Learner) -> Tensor:
        members, start = members_of(learner), self._start(learner)
        terms = [
            (p - _placed(start[name], _rows(p.detach(), members)).view_as(p)).square().sum()
            for name, p in learner.module.named_parameters()
        ]
        return self.strength * torch.stack(terms).sum()

    def _start(self, learner: Learner) -> dict[str, Tensor]:
        """Return the step-0 values sorted, (networks, entries); sorted anew where a checkpoint or a new head replaced
        them."""
        initial, known = self._starts.get(learner.name, ({}, {}))
        if initial is not learner.initial:
            members = members_of(learner)
            known = {name: _rows(value, members).sort().values for name, value in learner.initial.items()}
            self._starts[learner.name] = learner.initial, known
        return known


def _rows(values: Tensor, members: int) -> Tensor:
    """Return a parameter's entries, a row for each network that it belongs to."""
    return values.reshape(members if of_each(values, members) else 1, -1)


def _placed(ordered: Tensor, values: Tensor) -> Tensor:
    """Return sorted numbers in the order of `values`, the least where that has its least: the entry of θ₀ that each
    entry of θ is compared with."""
    return torch.empty_like(values).scatter_(-1, values.argsort(stable=True), ordered.to(values))
