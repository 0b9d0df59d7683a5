"""AdamO pulls every weight matrix toward an isometry, decoupled from the optimizer as AdamW's weight decay is.

    W ← W − η·λ·∇‖WᵀW − I‖²_F,   of WWᵀ if d_out < d_in;   then the optimizer's step, with the task's gradient alone

η is the learning rate of the moment. The gradient is 4·W(WᵀW − I), or 4·(WWᵀ − I)W. FIRE minimises this deviation from
isometry (DfI) at one moment, AdamO at every update. `parseval` adds the same term to the loss, so that Adam divides its
gradient by the size of recent gradients; here the moments are those of the task's gradient.

Source: Rosseau, Müller & Nowé 2026, "Preserving plasticity in continual learning via dynamical isometry" (arXiv
2606.09762), for Adam, with the step size of the isometry equal to η. Here it goes with any optimizer. A kernel is the
matrix (C_out, C_in·k_h·k_w). No code was released.

Resets: nothing.

Cost: two products of the size min(d_out, d_in)² × max(d_out, d_in) for each matrix and update.
"""

import torch

from supple.networks import Learner
from supple.networks.layers import Scope, require_trained

from .base import Intervention, check_within, interventions
from .parseval import distance_gradient


@interventions.register("adamo")
class AdamO(Intervention):
    """Make a step toward an isometry before every optimizer step (Rosseau et al. 2026).

    Args:
        strength: λ ≥ 0.
        scope: The layers whose weights are pulled.
    """

    def __init__(self, strength: float = 1e-3, scope: Scope = "all") -> None:
        check_within("adamo", strength=(strength, "[0, ∞)"))
        self.strength, self.scope = strength, scope

    def attach(self, learner: Learner) -> None:
        learner.require_optimizer("adamo")  # its steps have the learning rate of the optimizer
        require_trained(learner.select_stored(self.scope), f"adamo: no layer of '{learner.name}' in the scope")

    @torch.no_grad()
    def before_update(self, learner: Learner) -> None:
        rates = {p: group["lr"] for group in learner.require_optimizer("adamo").param_groups for p in group["params"]}
        layers = {layer.weight: layer for layer in learner.select(self.scope) if not layer.factor}
        for weight, layer in layers.items():
            if weight in rates and weight.requires_grad:
                kernel = layer.kernel  # a view of the weight, if it is stored as (d_in, d_out)
                gradient = distance_gradient(layer.matrices(kernel))
                kernel.sub_(gradient.reshape(kernel.shape).mul_(rates[weight] * self.strength))
