"""Weight clipping keeps weights and biases within a multiple of PyTorch's initial range.

    θ ← clip(θ, −κ·s, κ·s),  s = 1/√fan_in   after every update, for the weights and biases of a layer

s is the bound of the uniform distribution from which PyTorch draws the weight and the bias of a Linear or Conv layer.
fan_in is the number of inputs of one output: d_in, or C_in·k_h·k_w (C_in of its group) for a kernel. Normalisation
layers and parameters outside layers, such as the log σ of a Gaussian policy, are unchanged.

Source: Elsayed et al. 2024, "Weight clipping for deep continual and reinforcement learning" (arXiv 2407.01704).

Resets: nothing, the optimizer's slots included.

Cost: one pass over the weights after every update.

Released code: mohmdelsayed/weight-clipping has the same s whatever the initialisation. If another distribution was
used, the first update may clip: κ = 1 about half of the weights of a square orthogonal matrix with gain √2, and κ = 2 a
sixth. It also clips gains and shifts of normalisations, to the bound of the layer before, and the log σ of PPO's
policy, to ±κ/√n for n actions, so that σ stays away from 0.
"""

import torch

from supple.networks import Learner, Scope

from .base import Intervention, check_within, interventions


@interventions.register("weight_clip")
class WeightClip(Intervention):
    """Keep every weight and bias of the scope within ±kappa/√fan_in of its layer (Elsayed et al. 2024).

    Args:
        kappa: κ > 0; the paper sweeps 1 … 5. From 1 on, PyTorch's own initialisation is not clipped.
        scope: The layers that are clipped.
    """

    def __init__(self, kappa: float = 2.0, scope: Scope = "all") -> None:
        check_within("weight_clip", kappa=(kappa, "(0, ∞)"))
        self.kappa, self.scope = kappa, scope

    def attach(self, learner: Learner) -> None:
        learner.select_stored(self.scope)

    @torch.no_grad()
    def after_update(self, learner: Learner) -> None:
        for layer in learner.select(self.scope):
            limit = self.kappa * layer.kernel.flatten(1 + int(layer.stacked)).shape[-1] ** -0.5  # κ/√fan_in
            for parameter in layer.module.parameters(recurse=False):
                if parameter.requires_grad:  # a frozen one is kept
                    parameter.clamp_(-limit, limit)
