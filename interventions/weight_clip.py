"""Weight clipping keeps weights and biases within a multiple of their initial range.

    θ ← clip(θ, −κ·s, κ·s)   after every update, for the weights and biases of a layer

s is the bound of the uniform distribution from which the layer's weights were drawn. Here it is max |θ₀| over the
layer's weight at step 0 (for each member of a stack), which is close to that bound, and replaces it if another
distribution was used (the largest of n normal draws is √(2·ln n) standard deviations). A bias has the bound of its
layer's weight, since many start at zero. Normalisation layers and parameters outside layers are unchanged.

Source: Elsayed et al. 2024, "Weight clipping for deep continual and reinforcement learning" (arXiv 2407.01704).

Resets: nothing, the optimizer's slots included.

Cost: one pass over the weights after every update.
"""

import torch

from ..networks.layers import Scope
from ..networks.learner import Learner
from ..networks.members import AtStart, fit
from .base import Intervention, interventions


@interventions.register("weight_clip")
class WeightClip(Intervention):
    """Keep every weight and bias of the scope within ±kappa times its layer's initial bound (Elsayed et al. 2024).

    kappa: κ > 0; the paper sweeps 1 … 5. From 1 on no weight is clipped at the start, but biases may be.
    """

    def __init__(self, kappa: float = 2.0, scope: Scope = "all") -> None:
        if not 0.0 < kappa < float("inf"):
            raise ValueError(f"weight_clip: kappa must be finite and > 0, got {kappa}")
        self.kappa, self.scope = kappa, scope
        self._bounds = AtStart(lambda weight, axes: weight.abs().amax(axes))

    def attach(self, learner: Learner) -> None:
        for layer in learner.select(self.scope):
            if not self._bounds(learner, layer).all():
                raise ValueError(f"weight_clip: '{layer.name}' starts at zero and has no bound; exclude it with scope=")

    @torch.no_grad()
    def after_update(self, learner: Learner) -> None:
        for layer in learner.select(self.scope):
            bound = self.kappa * self._bounds(learner, layer)
            for parameter in layer.module.parameters(recurse=False):
                limit = fit(bound, parameter)
                parameter.clamp_(-limit, limit)
