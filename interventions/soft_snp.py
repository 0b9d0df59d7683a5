"""Soft shrink & perturb moves every parameter toward a new draw by a tiny share after every update.

    θ ← (1 − ε)·θ + ε·θ_fresh

θ_fresh is a new draw of the initial parameters after every update. `toward=initial` uses θ₀ instead. This is the drift
of soft resets (Galashov et al. 2024, "Non-stationary learning of neural networks with automatic soft parameter reset",
arXiv:2411.04034), θ ← γ·θ + (1 − γ)·θ₀, with a constant γ = 1 − ε. They fit γ before every update on the batch of that
update, and scale its learning rate by it. A hook does not see the batch of an update before its gradient is taken, so
the fitted form is not available.

Source: Juliani & Ash 2024, "A study of plasticity loss in on-policy deep reinforcement learning", arXiv:2405.19153, and
its released code (awjuliani/deep-rl-plasticity, algos/ppo/model.py; shrink 0.999999, perturb 0.000001).

Resets: nothing. The optimizer's state is kept, and target networks follow as usual.

Released code: it makes a new AdamW at every switch of the task, for all of its methods and for its baseline. Add
`reset(what=optimizer)@task` for this.

Cost: one pass over the parameters per update. `toward=fresh` also draws all of them, which takes longer than the update
itself if the initialisation is orthogonal.
"""

from typing import Literal

import torch

from supple.networks import Learner

from .base import Intervention, check_within, interventions


@interventions.register("soft_snp")
class SoftShrinkPerturb(Intervention):
    """Move every parameter toward a new draw by a tiny share after every update (Juliani & Ash 2024).

    Args:
        epsilon: ε in [0, 1], the share; the paper uses 1e-6.
        toward: `fresh`, a new draw at every update, or `initial`, the step-0 values.
    """

    def __init__(self, epsilon: float = 1e-6, toward: Literal["fresh", "initial"] = "fresh") -> None:
        check_within("soft_snp", epsilon=(epsilon, "[0, 1]"))
        self.epsilon, self.toward = epsilon, toward

    def attach(self, learner: Learner) -> None:
        learner.check_trained("soft_snp")
        if self.toward == "fresh":
            learner.check_drawn(learner.trained(), "soft_snp")

    @torch.no_grad()
    def after_update(self, learner: Learner) -> None:
        start = learner.initial
        if self.toward == "fresh":
            start = {**start, **learner.redraw()}
        named = learner.trained()
        targets = [start[name].to(parameter) for name, parameter in named.items()]
        torch._foreach_lerp_(list(named.values()), targets, self.epsilon)
