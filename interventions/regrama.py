"""ReGraMa, resets by gradient magnitude (Liu et al. 2025, "Measure gradients, not activations! Enhancing neuronal
activity in deep reinforcement learning", arXiv 2505.24061).

    score_i = mean|∂L/∂W_i| / (mean of mean|∂L/∂W| over the layer),   reset where score_i ≤ τ

W_i are the incoming weights of unit i, and the gradient that of the training loss on the recent inputs: a unit that is
active and learns nothing is reset, one that is silent on most inputs and learns from the rest is not. The metric
`small_gradient_fraction` counts the same units. They are drawn anew as by ReDo: incoming weights fresh, bias and
outgoing weights 0; by the contract `uniform` the slots of the rewritten entries and the step counters of their tensors
are zeroed, and target networks become the online network. (LucMc/continual-learning, optim/regrama.py, adds 1e-8 to the
mean.)

Cost: one forward and backward pass, and one draw of the network's parameters if any unit is to be reset.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..networks.learner import Learner
from ..networks.recording import evaluating
from ..networks.units import hidden_units, incoming_gradients, small_gradients
from .base import interventions
from .redo import Redo, check_tau


@interventions.register("regrama")
class ReGraMa(Redo):
    """Re-draw units whose incoming weights have small gradients (Liu et al. 2025).

    tau: a unit is reset when its score, on average 1 in a layer, is at most this; in [0, 1). Usual is 0.01, every 1000
        steps: `regrama@every:1000`.

    Units that the recent inputs do not pass through, another task's, are left alone, and so are those whose weights are
    not theirs alone (see wiring.py).
    """

    words = "of units with small gradients: incoming re-drawn, bias and outgoing 0"

    def __init__(self, tau: float = 0.01) -> None:
        check_tau("regrama", tau)
        super().__init__(tau)

    def chosen(self, learner: Learner, inputs: Sequence[Any]) -> dict[str, Tensor]:
        named = learner.trained()
        with evaluating(learner.module):
            found = torch.autograd.grad(learner.loss(), list(named.values()), allow_unused=True)
        gradients = {name: g for name, g in zip(named, found, strict=True) if g is not None}
        groups = hidden_units(learner, self.name)
        seen = {unit: g for unit, group in groups.items() if (g := incoming_gradients(group, gradients)) is not None}
        return {unit: small_gradients(g, self.tau) for unit, g in seen.items()}
