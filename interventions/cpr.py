"""Calibrated partial resets (CPR) interpolate the weights of units with small gradients with a new draw.

    u_i ← 0.99·u_i + 0.01·mean|∂L/∂W_i| / (mean of mean|∂L/∂W| over the layer + 1e-8)   at every update, from 1
    p_i = 0.015·min(1, 2·sigmoid(−16·(u_i − 1)))                                        at every 1000th
    W_i ← (1 − p_i)·W_i + p_i·fresh,   w_out,i ← (1 − p_i)·w_out,i,   u_i ← 1

W_i are the incoming weights of unit i and w_out,i its outgoing weights. Layers are processed from the input on. Units
that learn less than the average of their layer move toward a new draw, others hardly move (u = 1.5: by 1e-5). The
gradient is the one given to the optimizer: it includes penalties, and is clipped if the agent clips it. Only units
that do not share their weights are treated (see wiring.py). Units of another task, which have no gradient, are
unchanged. Each member of a stack is treated as a network of its own.

Source: arXiv 2607.24996; code LucMc/continual-learning, continual_learning/optim/cpr.py, 2026.

Resets: nothing else. Biases, normalisation layers, the optimizer's state and target networks are kept.

Cost: one pass over the gradients per update; at every 1000th update a draw of the network's parameters and one pass
over the weights.

Released code: it counts its first 1000 updates from 0, so that its first reset follows the 1001st update. It always
draws from Kaiming's uniform distribution, which its networks begin with. Here the draw is of the network's own initial
distribution, which for PyTorch's default is 2.4 times narrower.
"""

import torch

from supple.networks import Learner
from supple.networks.hidden_units import hidden_units, incoming_gradients

from .base import Intervention, check_within, interventions
from .recycle import broadcast_over_columns, broadcast_over_rows

DECAY = 0.99  # of u, per update
SHARPNESS = 16.0


@interventions.register("cpr")
class CalibratedPartialResets(Intervention):
    """Replace part of the weights of units with small gradients, every `period` updates (LucMc/continual-learning).

    Args:
        rate: The largest p in w ← (1 − p)·w + p·(a new draw), in [0, 1].
        period: Updates between two resets, ≥ 1.
    """

    def __init__(self, rate: float = 0.015, period: int = 1000) -> None:
        check_within("cpr", rate=(rate, "[0, 1]"), period=(period, "[1, ∞)"))
        self.rate, self.period = rate, period
        self.saved = {}  # updates, and utility by identity of units; by learner

    def attach(self, learner: Learner) -> None:
        hidden_units(learner, self.name)
        self.saved.setdefault(learner.name, {"updates": 0, "utility": {}})

    @torch.no_grad()
    def before_update(self, learner: Learner) -> None:
        utility = self.saved[learner.name]["utility"]
        gradients = {n: p.grad for n, p in learner.module.named_parameters() if p.grad is not None}
        for name, group in hidden_units(learner, self.name).items():
            if (incoming := incoming_gradients(group, gradients)) is not None:
                magnitudes = incoming.abs().mean(-1)
                score = magnitudes / (magnitudes.mean(-1, keepdim=True) + 1e-8)
                utility.setdefault(learner.identity(name), torch.ones_like(score)).lerp_(score, 1 - DECAY)

    @torch.no_grad()
    def after_update(self, learner: Learner) -> None:
        memory = self.saved[learner.name]
        memory["updates"] += 1
        if memory["updates"] % self.period:
            return
        if inputs := learner.probe():
            learner.check_wiring(inputs)
        fresh = {**learner.initial, **learner.redraw()}
        for name, group in hidden_units(learner, self.name).items():
            if (utility := memory["utility"].get(learner.identity(name))) is not None:
                share = self.rate * (2 * torch.sigmoid(-SHARPNESS * (utility - 1))).clamp(max=1)  # of each unit
                for place in group.wires.incoming:
                    layer = learner.module.get_submodule(place)
                    weight = layer.get_parameter("weight")
                    weight.lerp_(fresh[f"{place}.weight"].to(weight), broadcast_over_rows(share, layer))
                for layer in map(learner.module.get_submodule, group.wires.outgoing):
                    layer.get_parameter("weight").mul_(1 - broadcast_over_columns(share, layer))
                utility.fill_(1.0)
