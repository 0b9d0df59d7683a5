"""L2-ER decays all parameters, and climbs the effective rank of the features.

    L ← L + (λ/2)·‖θ‖²                                at every update
    θ ← θ + η·∇_θ mean_l erank(Φ_l), `steps` times    after every `period` updates
    erank(Φ) = exp(−Σ_i p_i·log p_i),  p = σ/Σσ,  σ the singular values of Φ

Φ_l are the outputs of hidden layer l on recent inputs (the learner's probe), a row for each input: (rows, units), or
for a transformer a row for each token, and for a convolution (rows, channels · height · width). The steps are plain
gradient steps, which the optimizer does not see. At a singular value of 0, erank has no gradient. There, and below
σ₁·max(rows, units)·ε, the gradient is taken as 0, so that it does not depend on LAPACK's choice of vectors. Each member
of a stack climbs its own rank.

Source: He et al. 2025, "Spectral collapse drives loss of plasticity in deep continual learning", arXiv:2509.22335. The
text of the paper was not at hand. The form is that of released code in which the method is called `l2_er`.

Resets: nothing.

Cost: one pass over the weights per update. After every `period` updates, for each step, a forward and a backward pass
on the probe and a singular value decomposition for each hidden layer, which takes long for convolutions and language
models.

Released code: three variants. In its PPO (after Dohare et al.'s), ten steps of η = 1e-3 on each 256 observations of the
rollout after every epoch. In classification, one step on the last 100 minibatches with η = 1e-4 after every 100
updates, or a term in each loss. Its gradient at a singular value of 0 is that of log(p + 1e-8), for vectors that LAPACK
chooses. L2 is Adam's weight decay there, which is the term above.
"""

from typing import Any

import torch
from torch import Tensor

from supple.networks import Learner, unchanged
from supple.networks.modules import CONV
from supple.networks.ranks import average
from supple.networks.recording import See, run_watched

from .base import Intervention, check_within, interventions


@interventions.register("l2_er")
class L2EffectiveRank(Intervention):
    """Penalise ‖θ‖², and climb the effective rank of all hidden layers' features (He et al. 2025).

    Args:
        strength: λ ≥ 0.
        rate: η ≥ 0, the length of a step in units of the gradient of the mean effective rank.
        period: Updates between two climbs, ≥ 1.
        steps: Steps of a climb, ≥ 1.
    """

    def __init__(self, strength: float = 1e-4, rate: float = 1e-3, period: int = 100, steps: int = 1) -> None:
        check_within(
            "l2_er",
            strength=(strength, "[0, ∞)"),
            rate=(rate, "[0, ∞)"),
            period=(period, "[1, ∞)"),
            steps=(steps, "[1, ∞)"),
        )
        self.strength, self.rate, self.period, self.steps = strength, rate, period, steps
        self.saved = {}  # updates by learner

    def attach(self, learner: Learner) -> None:
        learner.check_trained("l2_er")
        if not learner.units:
            raise ValueError(f"l2_er: '{learner.name}' has no hidden units: name them (Learner.units)")
        self.saved.setdefault(learner.name, 0)

    def penalty(self, learner: Learner) -> Tensor:
        squares = [torch.dot(p.flatten(), p.flatten()) for p in learner.trained().values()]
        return 0.5 * self.strength * torch.stack(squares).sum()

    def after_update(self, learner: Learner) -> None:
        self.saved[learner.name] += 1
        if self.saved[learner.name] % self.period or (inputs := learner.probe()) is None:
            return
        for _ in range(self.steps):
            _climb_(learner, inputs, self.rate)


def _climb_(learner: Learner, inputs: Any, rate: float) -> None:
    """Make one step, in place. Where gradients are not finite, which the run reports itself, nothing moves."""
    outputs: dict[str, Tensor] = {}

    def keep(name: str) -> See:
        return lambda called: outputs.__setitem__(name, called.output)

    parameters = list(learner.trained().values())
    # the gradient, too, is that of evaluation mode, in which activation checkpointing repeats the pass
    with unchanged(learner.module), torch.enable_grad():
        run_watched(learner.module, inputs, {name: keep(name) for name in learner.units}, learner.run)
        matrices = [
            _to_matrix(output, learner.is_stacked(name), isinstance(learner.layer_before(name), CONV))
            for name, output in outputs.items()
        ]
        mean = torch.stack([_effective_rank(matrix).sum() for matrix in matrices]).mean()
        if not mean.requires_grad:  # the layers before all units are frozen
            return
        gradients = average(torch.autograd.grad(mean, parameters, allow_unused=True))
    climbed = [
        (p.detach(), g.nan_to_num(0.0, 0.0, 0.0)) for p, g in zip(parameters, gradients, strict=True) if g is not None
    ]
    torch._foreach_add_([p for p, _ in climbed], [g for _, g in climbed], alpha=rate)


def _to_matrix(output: Tensor, stacked: bool, convolution: bool) -> Tensor:
    """Return features as (…, rows, units): a row for each input, or for each token of a transformer."""
    first = int(stacked)
    if output.ndim - first == 3 and not convolution:
        return output.flatten(first, first + 1)
    return output.flatten(first + 1)


def _effective_rank(features: Tensor) -> Tensor:
    """Return the differentiable effective rank of features, (…, rows, units) → (…); 1 if all of them are 0."""
    features = features.to(torch.promote_types(features.dtype, torch.float32))
    finite = features.isfinite().all(-1, keepdim=True).all(-2, keepdim=True)
    values = torch.linalg.svdvals(features.where(finite, 0.0))
    counts = values > values[..., :1] * max(features.shape[-2:]) * torch.finfo(values.dtype).eps
    total = torch.where(counts, values, 0.0).sum(-1, keepdim=True)
    # a share of 1 adds nothing to the entropy; no 0/0, whose gradient would be NaN
    shares = torch.where(counts, values, 1.0) / torch.where(counts, total, 1.0)
    return torch.special.entr(shares).sum(-1).exp()
