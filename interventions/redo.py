"""ReDo, recycling dormant neurons (Sokar et al. 2023, "The Dormant Neuron Phenomenon in Deep Reinforcement Learning").

    score_i = mean|h_i| / (mean of mean|h| over the layer + 1e-9),   dormant where score_i ≤ τ

over recent inputs, for convolutions over space as well. The denominator is the layer's *mean*, as in Dopamine's
released code (the paper can be read as a sum). Of a dormant unit the incoming weights are drawn anew, the bias is
0, and the outgoing weights are 0, also those to units drawn anew; the next layer's bias stays; a normalisation before
the unit is for that unit as at the start. So where a unit was silent on an input, the outputs on that input do not
change; and dead layers in a row come back from below, one at each application. Cost: one pass over the recent inputs,
and one draw of the network's parameters if any unit is dormant; then nothing else happens. Each member of a stack is
a network of its own here: its layers have means and masks of their own, and all are rewritten together.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ..networks.learner import Learner
from ..networks.units import activity_scores, hidden_units, observe
from .base import Intervention, interventions
from .contract import Preset, check_optimizer, contract_for, settle
from .recycle import recycle_, where


@interventions.register("redo")
class Redo(Intervention):
    """Re-draw dormant units: incoming weights fresh, bias and outgoing weights 0 (Sokar et al. 2023).

    tau: a unit is dormant when its score, on average 1 in a layer, is at most this; in [0, 1). Sokar et al. use
        0.1 (0.025 at DQN's own replay ratio), every 1000 steps: `redo@every:1000`.

    The slots of the rewritten entries are zeroed, and the step counters of the tensors they lie in. Dopamine's
    code keeps Adam's count (`as_released`): the first step on a zeroed slot is then (1 − β₁)/√(1 − β₂) = 3.2
    times the learning rate. With the count zeroed it is the learning rate, and the tensor's other entries, whose
    slots are kept, take a third of their step for a while. One thing of Dopamine's code is not followed, as it is a
    slip: from the last convolution to the linear layer after it `create_mask_helper` (dopamine/labs/redo/
    weight_recyclers.py) repeats each channel's mask for as many rows as there are places, while Flax flattens images
    channel by channel within each place, so it zeroes other columns than those of the dormant channels.

    Units that the recent inputs do not pass through, another task's, are left alone, and so are those whose weights
    are not theirs alone (see wiring.py).
    """

    words = "of dormant units: incoming re-drawn, bias and outgoing 0"

    def __init__(self, tau: float = 0.1, contract: Preset = "uniform") -> None:
        check_tau("redo", tau)
        self.tau, self.preset = tau, contract

    def attach(self, learner: Learner) -> None:
        contract_for(self.name, self.preset, learner.algorithm)
        check_optimizer(learner.optimizer)
        hidden_units(learner, self.name)

    def contract(self, learner: Learner) -> dict[str, str]:
        words = where(self.words, learner, self.name)
        own = {
            "uniform": {"optimizer state": "slots of the rewritten entries and step counters zeroed in place"},
            "as_released": {"optimizer state": "slots of the rewritten weights zeroed in place"},
        }[self.preset]
        return contract_for(self.name, self.preset, learner.algorithm).describe(words, learner, own)

    def apply(self, learner: Learner) -> list[str]:
        if (inputs := learner.probe()) is None:
            raise ValueError(f"{self.name} needs recent inputs, and '{learner.name}' has none yet: schedule it later")
        chosen = {unit: mask for unit, mask in self.chosen(learner, inputs).items() if mask.any()}
        if not chosen:
            return []
        fresh = {**learner.initial, **learner.redraw()}
        masks = recycle_(learner.module, chosen, learner.wiring, fresh)
        settle(learner, list(masks), contract_for(self.name, self.preset, learner.algorithm), masks)
        return list(masks)

    def chosen(self, learner: Learner, inputs: Sequence[Any]) -> dict[str, Tensor]:
        """Return which units are to be drawn anew, a mask for each module of units that the recent inputs reach."""
        scores = observe(learner, hidden_units(learner, self.name), inputs, _scores)
        return {unit: score <= self.tau for unit, score in scores.items()}


def check_tau(who: str, tau: float) -> None:
    if not 0.0 <= tau < 1.0:
        raise ValueError(f"{who}: tau must lie in [0, 1), got {tau}: scores are 1 on average")


def _scores(activations: Tensor) -> Tensor:
    """score_i of every unit: (…, rows, units) → (…, units)."""
    return activity_scores(activations.abs().mean(-2))
