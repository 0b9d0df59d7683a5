"""ReGraMa reinitialises units whose incoming weights have small gradients.

    score_i = mean|∂L/∂W_i| / (mean of mean|∂L/∂W| over the layer),   reset if score_i ≤ τ

W_i are the incoming weights of unit i. The gradient is that of the training loss on the recent inputs. A unit that is
active but learns nothing is reset. A unit that is silent on most inputs but learns from the others is not. The metric
`small_gradient_fraction` counts the same units. They are reinitialised as by ReDo: new incoming weights, bias and
outgoing weights 0.

Source: Liu et al. 2025, "Measure gradients, not activations! Enhancing neuronal activity in deep reinforcement
learning", arXiv:2505.24061.

Resets: contract `uniform` (slots of the rewritten entries and step counters of their tensors zeroed, target networks :=
online network).

Cost: one forward and backward pass, and one draw of the network's parameters if any unit is reset.

Released code: LucMc/continual-learning, optim/regrama.py, adds 1e-8 to the mean.
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
    """Reinitialise units whose incoming weights have small gradients (Liu et al. 2025).

    tau: A unit is reset if its score, which is 1 on average over a layer, is at most this; in [0, 1). Usual is 0.01
    every
        1000 steps: `regrama@every:1000`.

    Units that the recent inputs do not reach (those of another task) and units that share weights with others (see
    wiring.py) are unchanged.
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
