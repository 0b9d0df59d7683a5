"""ReGraMa reinitialises units whose incoming weights have small gradients.

    score_i = mean|∂L/∂W_i| / (mean of mean|∂L/∂W| over the layer),   reset if score_i ≤ τ

W_i are the incoming weights of unit i. The gradient is that of the training loss on the recent inputs. A unit that is
active but learns nothing is reset. A unit that is silent on most inputs but learns from the others is not. The metric
`small_gradient_fraction` counts the same units. They get new incoming weights and bias 0. Their outgoing weights stay,
or become 0 as by ReDo (`outgoing=zero`).

With `outgoing=zero`, a network in which no unit has a gradient can never learn again: all weights between its hidden
layers become 0, and no gradient passes them. This happens to PPO's policy on CartPole once it is deterministic. From
then on, it takes both actions with the same probability and returns 22 (docs/results/gym_control.md).

Source: Liu et al. 2025, "Measure gradients, not activations! Enhancing neuronal activity in deep reinforcement
learning", arXiv:2505.24061. The text of the paper was not at hand.

Resets: contract `uniform` (slots of the rewritten entries and step counters of their tensors zeroed, target networks :=
online network).

Cost: one forward and backward pass, and one draw of the network's parameters if any unit is reset.

Released code: three programs differ. The authors' `GradientReDo` (their repository was not at hand, only the copy
rippl-svg/grad-based-plasticity-metrics, utils/ReDo.py) acts on SAC's critics and on the gradient of the present
minibatch. It re-draws the incoming weights (Kaiming, uniform) and the bias, also of output units, and keeps the
outgoing weights. Without an `optimizer=` argument, as in its main.py, it keeps Adam's state; with one, it zeroes the
moments but not the step count. Gains of layer normalisations are reset by the same rule. Its τ is 0 by default.
LucMc/continual-learning, optim/regrama.py, sets the outgoing weights to 0, except those to units that are re-drawn too.
Both add a small number to the mean. AgileRL 2.13, by its release notes, takes the gradients of pre-activations and
draws small outgoing weights. Here output units and gains are never reset, and the gradient is that on the probe.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from supple.networks import Learner
from supple.networks.gradients import loss_gradients
from supple.networks.hidden_units import hidden_units, incoming_gradients, small_gradients
from supple.networks.ranks import average

from .base import check_within, interventions
from .recycle import Outgoing
from .redo import Redo


@interventions.register("regrama")
class ReGraMa(Redo):
    """Reinitialise units whose incoming weights have small gradients (Liu et al. 2025).

    Units that the recent inputs do not reach (those of another task) and units that share weights with others (see
    wiring.py) are unchanged.

    Args:
        tau: A unit is reset if its score, which is 1 on average over a layer, is at most this; in [0, 1). LucMc's
            program has 0.01 every 1000 steps: `regrama@every:1000`.
        outgoing: `kept` leaves the outgoing weights of these units as they are, `zero` sets them to 0.
    """

    def __init__(self, tau: float = 0.01, outgoing: Outgoing = "kept") -> None:
        check_within("regrama", tau=(tau, "[0, 1)"))
        super().__init__(tau)
        self.outgoing = outgoing
        after = "kept" if outgoing == "kept" else "0"
        self.effect = f"of units with small gradients: incoming re-drawn, bias 0, outgoing {after}"

    def choose(self, learner: Learner, inputs: Sequence[Any]) -> dict[str, Tensor]:
        named = learner.trained()
        learner.check_wiring(inputs)
        by_name = zip(named, average(loss_gradients(learner, list(named.values()))), strict=True)
        gradients = {name: gradient for name, gradient in by_name if gradient is not None}
        groups = hidden_units(learner, self.name)
        incoming = {unit: incoming_gradients(group, gradients) for unit, group in groups.items()}
        return {unit: small_gradients(g, self.tau) for unit, g in incoming.items() if g is not None}
