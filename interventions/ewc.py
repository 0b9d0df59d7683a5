"""Elastic weight consolidation (EWC) pulls parameters that mattered to earlier tasks back to their values after them.

    L ← L + λ·Σ_i F_i·(θ_i − θ*_i)²,   F ← γ·F + F_task   at the end of every task

F_task is the diagonal empirical Fisher information: the mean over samples of the squared gradient of one sample's
training loss. For a classifier this loss is −log p(label), as in the paper. For an agent that learns from
temporal-difference errors the formula is the same with another loss, and measures how much that loss depends on each
parameter.

With `reference=last`, θ* is the value at the end of the last task (online EWC, Schwarz et al. 2018, and Lillo & Cheney,
Appendix E.3, "those learned after the previous task", with γ = 1). With `each`, every task keeps its own θ*, as in
Kirkpatrick et al. This needs no more memory, since the sum of the quadratics is one quadratic:

    Σ_k F_k·(θ − θ_k)² = F·(θ − θ̄)² + const,   F = Σ_k F_k,   θ̄ = Σ_k F_k·θ_k / F

The constant has no gradient and is left out. There is no factor ½, as in Lillo & Cheney (E.3) and unlike Kirkpatrick's
λ/2. The penalty is 0 before the first task ends. After a reset it remains and pulls back to θ*. Parameters that an
injection adds are free.

Source: Kirkpatrick et al. 2017, "Overcoming catastrophic forgetting in neural networks" (arXiv 1612.00796).

Resets: nothing.

Cost: two tensors for every parameter and one pass over them per update; at the end of a task the gradients of `samples`
samples, each through its whole batch.
"""

from typing import Literal

import torch
from torch import Tensor

from supple.networks import Learner, no_batches, unchanged
from supple.networks.ranks import average

from .base import Intervention, check_within, interventions

BUDGET = 2**25  # numbers in the single-sample gradients held at once: 128 MB in float32


@interventions.register("ewc")
class EWC(Intervention):
    """Penalise ΣF·(θ − θ*)² with F measured at the end of every task (Kirkpatrick et al. 2017).

    Args:
        strength: λ ≥ 0; Lillo & Cheney sweep 10, 50, 200 (Table E11).
        samples: Number from which F is estimated, ≥ 1, for each member of a stack; they come from successive batches of
            the task that ends.
        decay: γ in [0, 1], the weight of older tasks.
        reference: `last` (θ* after the last task) or `each` (one θ* for each task).
    """

    def __init__(
        self,
        strength: float = 10.0,
        samples: int = 512,
        decay: float = 1.0,
        reference: Literal["last", "each"] = "last",
    ) -> None:
        check_within("ewc", strength=(strength, "[0, ∞)"), samples=(samples, "[1, ∞)"), decay=(decay, "[0, 1]"))
        self.strength, self.samples, self.decay, self.reference = strength, samples, decay, reference
        self.saved = {"fisher": {}, "centre": {}}  # F and θ* by learner and identity of parameter

    def attach(self, learner: Learner) -> None:
        learner.check_trained("ewc")
        if learner.batches is no_batches:
            raise ValueError(f"ewc: '{learner.name}' provides no batches; set Learner.batches")

    def penalty(self, learner: Learner) -> Tensor:
        fisher, centre = (self.saved[part].get(learner.name, {}) for part in ("fisher", "centre"))
        now = {learner.identity(name): parameter for name, parameter in learner.module.named_parameters()}
        terms = [
            (fisher[key] * (parameter - centre[key]).square()).sum()
            for key, parameter in now.items()
            if key in fisher  # not of parts that were added since
        ]
        if not terms:
            return next(learner.module.parameters()).new_zeros(())
        return self.strength * torch.stack(terms).sum()

    def finish_task(self, learner: Learner) -> None:
        fisher, centre = (self.saved[part].setdefault(learner.name, {}) for part in ("fisher", "centre"))
        now = {name: p.detach() for name, p in learner.module.named_parameters()}
        with unchanged(learner.module):  # running statistics would move, and tie the samples of a batch together
            measured = empirical_fisher(learner, self.samples)
        for name, new in measured.items():
            key = learner.identity(name)
            fisher[key] = (fisher[key].mul_(self.decay) if key in fisher else torch.zeros_like(new)).add_(new)
            share = torch.ones_like(new) if self.reference == "last" else (new / fisher[key]).nan_to_num_(1.0)
            centre[key] = torch.lerp(centre[key], now[name], share) if key in centre else now[name].clone()


def empirical_fisher(learner: Learner, samples: int) -> dict[str, Tensor]:
    """Return the mean squared gradient of single samples' training losses over `samples` samples, by parameter, (…).

    In a stack each member has its own. Raises ValueError if the learner has no batches or no sample.
    """
    named = learner.trained()
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
    return dict(zip(fisher, average([total.div_(seen) for total in fisher.values()]), strict=True))
