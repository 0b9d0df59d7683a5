"""Rebalancing gives every two consecutive linear maps a chosen balance λ and keeps the function.

    W2ᵀW2 − W1W1ᵀ ← λI

The balance affects how a network learns from then on, since gradient flow conserves it. See balance.py for the
equations and linear_pairs.py for the definition of a pair. LoRA's A and B, and Linear layers with nothing between
them, reach λI. MLP layers with a positive-homogeneous activation between them reach its diagonal, by one factor for
each hidden unit. It writes the weights of the pairs and the biases of their first maps.

Source: the λ-balanced paper, "From Lazy to Rich: Exact Learning Dynamics in Deep Linear Networks" (arXiv 2409.14623),
Appendix D.4.

Resets: contract `uniform` (optimizer state of the rewritten tensors zeroed, target networks := online network).

Cost: milliseconds for the network of an agent.
"""

from collections.abc import Sequence

from torch import Tensor

from supple.networks import Learner, LinearPair, Scope

from .balance import balance_pairs_, check_sizes
from .base import Intervention, check_within, interventions, scope_text
from .contract import UNIFORM, check_optimizer, settle


@interventions.register("rebalance")
class Rebalance(Intervention):
    """Give every two consecutive linear maps the balance λ and keep the function (the λ-balanced paper, D.4).

    Without a schedule it is applied once, at the start. If activations lie between the maps, only factors of the hidden
    units keep the function, and only the diagonal of W2ᵀW2 − W1W1ᵀ = λI is reached. The contract is `uniform`.

    Args:
        lam: λ. 0 makes both maps equally large, λ > 0 the second larger, λ < 0 the first. The paper uses −10 to 10.
        scope: Only pairs of which all layers are in the scope.
    """

    at_start = True

    def __init__(self, lam: float = 0.0, scope: Scope = "all") -> None:
        check_within("rebalance", lam=(lam, "(-∞, ∞)"))
        self.lam, self.scope = lam, scope
        self._concerned: dict[str, bool] = {}

    def concerns(self, learner: Learner) -> bool:
        """Return whether there were consecutive linear maps at the first call, which is before training.

        It is called at every step. If another intervention has since removed the pairs, `apply` raises an error.
        """
        if learner.name not in self._concerned:
            self._concerned[learner.name] = bool(learner.linear_pairs())
        return self._concerned[learner.name]

    def attach(self, learner: Learner) -> None:
        for pair in self._pairs(learner):
            check_sizes(pair, self.lam)
        check_optimizer(learner.optimizer)

    def contract(self, learner: Learner) -> dict[str, str]:
        count = len(self._pairs(learner))
        return UNIFORM.describe(f"{count} pair{'s' * (count > 1)} of linear maps, the function kept", learner)

    def apply(self, learner: Learner) -> list[str]:
        check_optimizer(learner.optimizer)
        pairs = self._pairs(learner)
        for pair in pairs if self.lam == 0 else ():
            if pair.between == "linear" and not all(
                any(bool(w.any()) for w in side) for side in (pair.first, pair.second)
            ):
                raise ValueError(
                    f"rebalance: a map of {pair.name} is zero, so lam=0 would make both zero, and neither could"
                    " learn; use another lam or a later step"
                )
        entries = _entries(pairs, balance_pairs_(pairs, self.lam))
        written = [name for name, where in entries.items() if where.any()]
        # whole tensors need no mask, and a transposed one (LoRA's B) could not have it as it is
        settle(learner, written, UNIFORM, {name: entries[name] for name in written if not entries[name].all()})
        return written

    def _pairs(self, learner: Learner) -> list[LinearPair]:
        """Return the pairs in the scope. Raises ValueError with the reason if there are none."""
        pairs = learner.linear_pairs()
        if not pairs:
            raise ValueError(
                f"rebalance: '{learner.name}' has no two consecutive linear maps: two Linear layers that are trained, "
                "used once and without hooks, and between them nothing, dropout, or relu, leaky_relu, prelu or rrelu"
            )
        if self.scope == "all":
            return pairs
        layers = {layer.name for layer in learner.select(self.scope)}
        chosen = [pair for pair in pairs if {name.rpartition(".")[0] for name in pair.parameters} <= layers]
        if not chosen:
            raise ValueError(f"rebalance: scope={scope_text(self.scope)} contains no complete pair of '{learner.name}'")
        return chosen


def _entries(pairs: Sequence[LinearPair], reached: Sequence[Tensor]) -> dict[str, Tensor]:
    """Return a mask of the written entries of each parameter: those of hidden units (…, h) that could be balanced."""
    masks: dict[str, Tensor] = {}
    for pair, units in zip(pairs, reached, strict=True):
        where = (
            [units[..., None]] * len(pair.first) + [units[..., None, :]] * len(pair.second) + [units] * len(pair.bias)
        )
        for name, tensor, entries in zip(pair.parameters, pair.tensors, where, strict=True):
            entries = entries.expand(tensor.shape)
            masks[name] = masks[name] | entries if name in masks else entries
    return masks
