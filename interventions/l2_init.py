"""L2-Init (regenerative regularisation) pulls the parameters toward their initial values instead of toward zero.

    L ← L + λ·‖θ − θ₀‖²

Source: Kumar et al. 2023 (arXiv 2308.11958). The printed equation has no factor ½, and this has none either.

Resets: nothing.

Cost: one pass over the parameters per update.

Released code: skumar9876/L2_Init, agents/agents.py, has the factor ½, so half of its `l2_weight` is the same strength
here. So has isaac7778/FIRE, vision/train.py (coef/2): the 1e-3 of the FIRE paper's Table 7 was run as `strength=5e-4`,
and the values of its Tables 8 and 9 as half of those printed. The suites of the FIRE paper have the strengths that were
run.
"""

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from supple.networks import Learner

from .base import Intervention, check_within, interventions


@interventions.register("l2_init")
class L2Init(Intervention):
    """Penalise ‖θ − θ₀‖² of every parameter (Kumar et al. 2023); strengths of 1e-5 … 1e-2 are usual."""

    def __init__(self, strength: float = 1e-3) -> None:
        check_within("l2_init", strength=(strength, "[0, ∞)"))
        self.strength = strength

    def attach(self, learner: Learner) -> None:
        learner.check_trained("l2_init")

    def penalty(self, learner: Learner) -> Tensor:
        # One operation forward and one backward for each parameter, with no tensor of its size stored in between.
        # Integers are quantised weights, which nothing trains.
        named = learner.module.named_parameters()
        terms = [mse_loss(p, learner.initial[n], reduction="sum") for n, p in named if p.is_floating_point()]
        return self.strength * torch.stack(terms).sum()
