"""Continual backpropagation (CBP) replaces the least useful mature units of every layer at a constant rate.

    u_i ← 0.99·u_i + 0.01·mean|h_i|·Σ|w_out,i|,   utility_i = u_i / (1 − 0.99^age_i)

After every update each layer accumulates ρ·(number of its units older than m updates) replacements. When this reaches
1, the unit of least utility among them is reinitialised: new incoming weights, bias and outgoing weights 0, and its
normalisation as at initialisation. Its average contribution, mean(h_i)·w_out,i (a moving average as above), is added to
the biases of the layers that read it. If such a layer has no bias (before a normalisation, for example), the
contribution is lost. After pooling or a normalisation of the activations, or with the zero padding of a convolution, it
is approximate. For a convolution, units are channels: means also run over positions, sums over all taps and positions
that read the channel.

The number of units to replace does not depend on data, so nothing waits for a GPU. Step counters are kept, since
replacements are frequent and a counter belongs to the whole tensor (Dohare et al. count for each weight). The first
steps of a new unit are therefore up to 6.6 times the learning rate (Adam, β = (0.9, 0.999), constant gradient). Target
networks are kept: copying the online network at each replacement would leave them without a lag.

Source: Dohare et al. 2024, "Loss of plasticity in deep continual learning" (arXiv 2306.13812), Algorithm 1.

Resets: optimizer slots of the rewritten entries. Step counters and target networks are kept.

Cost: at each look one forward pass on the recent inputs (`Learner.last_inputs`) and one pass over the weights; for each
replacement one pass over the two layers around the unit; every m updates at most one new draw of the network's
parameters, in which each unit's row is used once.

Released code: in shibhansh/loss-of-plasticity, lop/algos/gnt.py, nothing reaches the biases, because `test_features`
sets the average of a chosen unit to 0 before `gen_new_features` multiplies by it. Its convGnT.py has no such term.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from supple.networks import Learner
from supple.networks.hidden_units import Hidden, outgoing_weights

from .base import check_within, interventions
from .replacement import Replacement

DECAY = 0.99  # of the averages, per update


@interventions.register("cbp")
class ContinualBackprop(Replacement):
    """Replace the least useful mature units at a constant rate (Dohare et al. 2024).

    Args:
        replacement_rate: ρ, share of a layer's mature units replaced per update, in [0, 1]; 1e-4 and 1e-5 are usual.
        maturity: m, updates during which a new unit is protected, ≥ 0; FIRE's experiments use 100 and 1000 (Appendix
            E).
        period: Updates between two looks at the units, ≥ 1. Rate, maturity and averages remain per update.
    """

    effect = (
        "of the least useful units, all the time: incoming re-drawn, bias and outgoing 0, their mean to the next bias"
    )

    def __init__(self, replacement_rate: float = 1e-4, maturity: int = 1000, period: int = 1) -> None:
        super().__init__("cbp", period)
        check_within("cbp", replacement_rate=(replacement_rate, "[0, 1]"), maturity=(maturity, "[0, ∞)"))
        self.rate, self.maturity = replacement_rate, maturity
        self.reuse = maturity  # no unit is replaced twice within it

    def statistic(self, activations: Tensor) -> Tensor:
        """Return mean |h| and mean h: (…, rows, units) → (2, …, units)."""
        return torch.stack([activations.abs().mean(-2), activations.mean(-2)])

    def begin(self, group: Hidden, device: torch.device) -> dict[str, Tensor | float | list[list[int]]]:
        zeros = torch.zeros(group.shape, dtype=torch.float32, device=device)
        return {
            "age": zeros.clone(),  # updates since the unit was drawn
            "utility": zeros.clone(),
            "mean": zeros.clone(),
            "due": 0.0,  # replacements earned
            "young": [[0, group.width]],  # [age, units] of those that cannot be replaced yet
        }

    def choose(
        self, learner: Learner, groups: Mapping[str, Hidden], states: Mapping[str, dict], seen: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        masks: dict[str, Tensor] = {}
        keep = DECAY**self.period
        for name, (activity, mean) in seen.items():
            group, state = groups[name], states[name]
            state["age"] += self.period
            state["utility"].lerp_((activity * _outgoing_magnitude(learner, group)).float(), 1 - keep)
            state["mean"].lerp_(mean.float(), 1 - keep)
            number = self._count_due(group.width, state)
            if number:
                correction = 1 - DECAY ** state["age"]
                utility = (state["utility"] / correction).masked_fill(state["age"] <= self.maturity, torch.inf)
                lowest = utility.argsort(stable=True)[..., :number]
                masks[name] = torch.zeros_like(utility, dtype=torch.bool).scatter_(-1, lowest, True)
                lost = (state["mean"] / correction).where(masks[name], 0)
                for layer, weight in outgoing_weights(learner.module, group):
                    if layer.bias is not None:  # it gets what the units contributed on average
                        layer.get_parameter("bias").add_((weight.sum(-1) * lost.unsqueeze(-2)).sum(-1))
                for average in ("age", "utility", "mean"):
                    state[average].masked_fill_(masks[name], 0)
        return masks

    def _count_due(self, width: int, state: dict) -> int:
        """Return the number of units of a layer to replace now, in every member of a stack."""
        aged = [[age + self.period, units] for age, units in state["young"]]
        state["young"] = [[age, units] for age, units in aged if age <= self.maturity]
        mature = width - sum(units for _, units in state["young"])
        state["due"] += self.rate * self.period * mature
        number = min(int(state["due"]), mature)
        if number:
            state["due"] -= number
            state["young"].append([0, number])
        return number


def _outgoing_magnitude(learner: Learner, group: Hidden) -> Tensor:
    """Return Σ|w_out| of each unit over all layers that read it."""
    sums = [weight.abs().sum((-3, -1)) for _, weight in outgoing_weights(learner.module, group)]
    # a stack may read single units
    return torch.stack([total if total.ndim == len(group.shape) else total.sum(0) for total in sums]).sum(0)
