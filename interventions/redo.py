"""ReDo reinitialises dormant units.

    score_i = mean|h_i| / (mean of mean|h| over the layer + 1e-9),   dormant if score_i ≤ τ

Means are over recent inputs, for convolutions over positions as well. The denominator is the layer's *mean*, as in
Dopamine's released code (the paper can also be read as a sum). A dormant unit gets new incoming weights, bias 0 and
outgoing weights 0, including those to other reinitialised units. The bias of the next layer stays. A normalisation
before the unit returns to its initial values for that unit. If a unit was silent on an input, the outputs on that input
therefore do not change, unless a layer or group normalisation couples the units. Consecutive dead layers recover from
the input side, one at each application. Each member of a stack has its own means and masks. All members are rewritten
together.

Source: Sokar et al. 2023, "The Dormant Neuron Phenomenon in Deep Reinforcement Learning", arXiv:2302.12902.

Resets: by the contract `uniform` the slots of the rewritten entries and the step counters of their tensors; target
networks := online network. With the count zeroed, the first step of a rewritten entry is the learning rate, and other
entries of the tensor, whose slots are kept, make a third of their step for a while.

Cost: one pass over the recent inputs, and one draw of the network's parameters if any unit is dormant.

Released code: Dopamine keeps Adam's count (`as_released`), so the first step on a zeroed slot is (1 − β₁)/√(1 − β₂) =
3.2 times the learning rate. One mistake of Dopamine's code is not reproduced. From the last convolution to the next
linear layer, `create_mask_helper` (dopamine/labs/redo/weight_recyclers.py) repeats each channel's mask for as many rows
as there are positions. But Flax flattens images channel by channel within each position, so the code zeroes columns
that do not belong to the dormant channels.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from supple.networks import Learner
from supple.networks.hidden_units import activity_scores, hidden_units, observe
from supple.networks.members import only, seeds_with

from .base import Intervention, check_within, interventions
from .contract import Preset, check_contract, contract_for, settle
from .recycle import Outgoing, describe_reach, recycle_


@interventions.register("redo")
class Redo(Intervention):
    """Reinitialise dormant units: new incoming weights, bias and outgoing weights 0 (Sokar et al. 2023).

    Units that the recent inputs do not reach (those of another task) and units that share weights with others (see
    wiring.py) are unchanged.

    Args:
        tau: A unit is dormant if its score, which is 1 on average over a layer, is at most this; in [0, 1). Sokar et
            al. use 0.1 (0.025 at DQN's own replay ratio) every 1000 steps, which are gradient steps in their code. A
            schedule counts environment steps, so this is `redo@every:4000` for a DQN with a gradient step every four.
        contract: `uniform`, or `as_released`, which keeps Adam's step count.
    """

    effect = "of dormant units: incoming re-drawn, bias and outgoing 0"
    outgoing: Outgoing = "zero"

    def __init__(self, tau: float = 0.1, contract: Preset = "uniform") -> None:
        check_within("redo", tau=(tau, "[0, 1)"))
        self.tau, self.preset = tau, contract

    def attach(self, learner: Learner) -> None:
        check_contract(learner, contract_for(self.name, self.preset, learner), entries=True)
        hidden_units(learner, self.name)

    def contract(self, learner: Learner) -> dict[str, str]:
        effect = describe_reach(self.effect, learner, self.name)
        columns = {
            "uniform": {"optimizer state": "slots of the rewritten entries and step counters zeroed in place"},
            "as_released": {"optimizer state": "slots of the rewritten weights zeroed in place"},
        }[self.preset]
        return contract_for(self.name, self.preset, learner).describe(effect, learner, columns)

    def apply(self, learner: Learner) -> list[str]:
        if (inputs := learner.probe()) is None:
            raise ValueError(f"{self.name} needs recent inputs, but '{learner.name}' has none yet; schedule it later")
        chosen = {unit: mask for unit, mask in self.choose(learner, inputs).items() if mask.any()}
        if not chosen:
            return []
        contract = contract_for(self.name, self.preset, learner)
        check_contract(learner, contract, entries=True)
        with only(learner, seeds_with(learner, chosen.values())):  # alone, the others would do nothing
            fresh = {**learner.initial, **learner.redraw()}
            masks = recycle_(learner.module, chosen, learner.wiring, fresh, self.outgoing)
            settle(learner, list(masks), contract, masks)
        return list(masks)

    def choose(self, learner: Learner, inputs: Sequence[Any]) -> dict[str, Tensor]:
        """Return a mask of the units to reinitialise, (units,) or (members, units), by module of units.

        Modules that these inputs do not reach are left out.
        """
        magnitudes = observe(learner, hidden_units(learner, self.name), inputs, lambda h: h.abs().mean(-2))
        return {unit: activity_scores(each) <= self.tau for unit, each in magnitudes.items()}
