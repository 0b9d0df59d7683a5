"""Elastic weight consolidation (Kirkpatrick et al. 2017, "Overcoming catastrophic forgetting in neural networks").

    L ← L + λ·Σ_i F_i·(θ_i − θ*_i)²,   F ← γ·F + F_task   at the end of every task

F_task is the diagonal empirical Fisher information: the mean over samples of the squared gradient of one sample's
training loss. For a classifier that is log p(label), as Kirkpatrick et al. have it; where an agent learns from
temporal-difference errors it is the same formula on another loss, and says how much that loss depends on each
parameter.

θ* is where the last task ended (`reference=last`: online EWC, Schwarz et al. 2018, and the reading of Lillo & Cheney,
Appendix E.3, "those learned after the previous task", with its decay γ = 1), or each task keeps its own (`each`), as
Kirkpatrick et al. have it. That costs no more memory, since quadratics add up to one:
    Σ_k F_k·(θ − θ_k)² = F·(θ − θ̄)² + const,   F = Σ_k F_k,   θ̄ = Σ_k F_k·θ_k / F,
and the constant, which has no gradient, is left out. The printed equation has no ½ (Lillo & Cheney, E.3), unlike
Kirkpatrick's λ/2, and neither has this.

It resets nothing, and is nothing before the first task ends. After a reset the penalty stays, and pulls back to θ*;
what an injection adds is free. Cost: two tensors for every parameter and a pass over them per update; at a task's end
the gradients of `samples` samples, each through its whole batch.
"""

from typing import Literal

import torch
from torch import Tensor

from ..networks.capabilities import no_batches
from ..networks.learner import Learner
from .base import Intervention, interventions

BUDGET = 2**25  # numbers in the single-sample gradients held at once: 128 MB in float32


@interventions.register("ewc")
class EWC(Intervention):
    """Penalty strength·ΣF·(θ − θ*)², F measured at the end of every task (Kirkpatrick et al. 2017).

    strength: λ ≥ 0; Lillo & Cheney sweep 10, 50, 200 (Table E11). samples: from which F is estimated, ≥ 1, of each
    member of a stack; successive batches of the task that ends. decay: γ in [0, 1] of what older tasks contributed.
    reference: what θ* is, see above.
    """

    def __init__(
        self,
        strength: float = 10.0,
        samples: int = 512,
        decay: float = 1.0,
        reference: Literal["last", "each"] = "last",
    ) -> None:
        if not 0.0 <= strength < float("inf"):
            raise ValueError(f"ewc: strength must be finite and ≥ 0, got {strength}")
        if samples < 1:
            raise ValueError(f"ewc: samples must be 1 or more, got {samples}")
        if not 0.0 <= decay <= 1.0:
            raise ValueError(f"ewc: decay must lie in [0, 1], got {decay}")
        self.strength, self.samples, self.decay, self.reference = strength, samples, decay, reference
        self._fisher: dict[str, dict[str, Tensor]] = {}  # F by learner and identity of parameter
        self._centre: dict[str, dict[str, Tensor]] = {}  # θ*
        self._devices: dict[str, torch.device] = {}

    def attach(self, learner: Learner) -> None:
        if learner.batches is no_batches:
            raise ValueError(f"ewc: '{learner.name}' offers no batches to look at (Learner.batches)")
        self._devices[learner.name] = next(learner.module.parameters()).device

    def penalty(self, learner: Learner) -> Tensor:
        fisher, centre = self._fisher.get(learner.name, {}), self._centre.get(learner.name, {})
        terms = [
            (fisher[key] * (parameter - centre[key]).square()).sum()
            for name, parameter in learner.module.named_parameters()
            if (key := learner.identity(name)) in fisher  # not of parts that were added since
        ]
        if not terms:
            return next(learner.module.parameters()).new_zeros(())
        return self.strength * torch.stack(terms).sum()

    def finish_task(self, learner: Learner) -> None:
        fisher = self._fisher.setdefault(learner.name, {})
        centre = self._centre.setdefault(learner.name, {})
        now = {name: p.detach() for name, p in learner.module.named_parameters()}
        for name, new in empirical_fisher(learner, self.samples).items():
            key = learner.identity(name)
            old = fisher[key].mul_(self.decay) if key in fisher else torch.zeros_like(new)
            fisher[key] = old.add_(new)
            share = torch.ones_like(new) if self.reference == "last" else (new / fisher[key]).nan_to_num_(1.0)
            centre[key] = torch.lerp(centre[key], now[name], share) if key in centre else now[name].clone()

    def state_dict(self) -> dict[str, dict[str, dict[str, Tensor]]]:
        kept = {"fisher": self._fisher, "centre": self._centre}
        return {key: {learner: dict(values) for learner, values in each.items()} for key, each in kept.items()}

    def load_state_dict(self, state: dict[str, dict[str, dict[str, Tensor]]]) -> None:
        def placed(of: dict[str, Tensor], learner: str) -> dict[str, Tensor]:
            """On the learner's device: a checkpoint is read to the CPU. A copy, since F is written in place."""
            return {name: v.to(self._devices.get(learner, v.device), copy=True) for name, v in of.items()}

        self._fisher, self._centre = (
            {learner: placed(values, learner) for learner, values in state[key].items()} for key in ("fisher", "centre")
        )


def empirical_fisher(learner: Learner, samples: int) -> dict[str, Tensor]:
    """Return mean over `samples` samples of the squared gradient of one sample's training loss, by parameter; of a
    stack each member's own. Raises ValueError where the learner has no batches, or fewer samples than one."""
    named = {name: p for name, p in learner.module.named_parameters() if p.requires_grad}
    fisher = {name: torch.zeros_like(p) for name, p in named.items()}
    chunk = max(1, BUDGET // sum(p.numel() for p in named.values()))
    seen = 0
    for losses in learner.batches(samples):  # more than enough; the loop ends before
        count = min(losses.shape[-1], samples - seen)
        one_hot = torch.eye(count, losses.shape[-1], dtype=losses.dtype, device=losses.device)
        for rows in one_hot.split(chunk):
            # a sample's gradient in each member of a stack at once: the members have no parameter in common
            select = rows.view(len(rows), *[1] * (losses.ndim - 1), -1).expand(-1, *losses.shape)
            gradients = torch.autograd.grad(
                losses, list(named.values()), select, retain_graph=True, allow_unused=True, is_grads_batched=True
            )
            for name, gradient in zip(named, gradients, strict=True):
                if gradient is not None:
                    fisher[name].add_(gradient.square_().sum(0))
        seen += count
        if seen == samples:
            break
    if not seen:
        raise ValueError(f"ewc: '{learner.name}' has no samples of the task that ends")
    return {name: total.div_(seen) for name, total in fisher.items()}
