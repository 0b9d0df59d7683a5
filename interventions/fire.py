"""FIRE (Frobenius–Isometry REinitialization) replaces weight matrices by their nearest isometry, scaled.

    W ← s · argmin ‖W − X‖²_F subject to XᵀX = I,   s = √(d_out/d_in), for convolutions per tap with 1/(k_h·k_w)

Of all isometries it takes the one nearest to the weights. It restores the conditioning of a network at initialisation
with the smallest change.

Source: the FIRE paper (Han et al. 2026, arXiv 2602.08040), eq. 4 and 5, Appendix C.

Resets: weight matrices only. Biases, normalisation layers and parameters outside layers are kept, and so are frozen
weights, a head that is tied to an embedding (unless the scope names it) and the factors of adapters. FIRE is defined on
the matrix that a layer applies, W + B·A with an adapter, and not on A and B. The rest follows the reset contract.

Cost: `steps` × 4·N·k² operations for a matrix with sides N ≥ k; milliseconds for the network of an agent.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from supple.networks import Learner, Scope
from supple.networks.matrices import FROZEN, Written, describe_skipped, first_names, weight_matrices

from .base import Reinitialization, interventions
from .contract import Preset, contract_for
from .isometry import fire_
from .orthogonalize import check_method


@dataclass(frozen=True)
class FireScope:
    """A capability: the layers of this network to which the paper restricts FIRE."""

    scope: Scope


@interventions.register("fire")
class Fire(Reinitialization):
    """Replace weight matrices by their nearest isometry, scaled (the FIRE paper).

    Ten cubic Newton–Schulz steps, the released default, do not reach an isometry for square matrices.
    Use `tolerance` or `method=polar` if that matters. Events record DfI before and after.

    Args:
        method, steps, tolerance: As in `orthogonalize`.
        scope: By default all weight matrices, or those layers to which the paper restricts FIRE on this network
            (`FireScope`): the query and key projections of a vision transformer, whose other layers did not gain
            (Appendix C). `all` includes the matrices of recurrent and attention modules, which have no role. Frozen
            weights are kept. A head that is tied to an embedding is kept, unless its role or part is in the scope
            (`scope=head`).
        contract: What else is reset, `uniform` or `as_released`.
    """

    def __init__(
        self,
        method: str = "newton_schulz",
        steps: int = 10,
        tolerance: float | None = None,
        scope: Scope | None = None,
        contract: Preset = "uniform",
    ) -> None:
        super().__init__("all" if scope is None else scope, contract)
        check_method(method, steps, tolerance)
        self.method, self.steps, self.tolerance = method, steps, tolerance
        self.as_in_paper = scope is None

    def scope_on(self, learner: Learner) -> Scope:
        restriction = learner.offers(FireScope) if self.as_in_paper else None
        return restriction.scope if restriction else self.scope

    def attach(self, learner: Learner) -> None:
        super().attach(learner)
        chosen, kept = self._choose(learner)
        if chosen:
            return
        why = f": {describe_skipped(kept)}" if kept else ""
        raise ValueError(f"{self.name}: '{learner.name}' has no weight matrix to rewrite{why}")

    def contract(self, learner: Learner) -> dict[str, str]:
        row = super().contract(learner)
        _, kept = self._choose(learner)
        return row | {"weights": f"{row['weights']}; kept: {describe_skipped(kept)}"} if kept else row

    def rewrite(self, module: nn.Module, learner: Learner, start: Mapping[str, Tensor], scope: Scope) -> Written:
        # of the learner's own network, since all parameters of a target network are frozen
        chosen, kept = self._choose(learner)
        written = fire_(
            module, self.method, self.steps, self.tolerance, names=chosen, split=chosen, seeds=learner.seeds
        )
        return Written(written, kept)

    def _choose(self, learner: Learner) -> tuple[dict[str, int], dict[str, str]]:
        """Return the names of the weights to rewrite → their parts, and of those in the scope that are kept → why."""
        scope = contract_for(self.name, self.preset, learner).weights or self.scope_on(learner)
        scopes = {scope} if isinstance(scope, str) else set(scope)
        matrices, first = weight_matrices(learner.module), first_names(learner.module)
        inside = {layer: layer.weight_name for layer in learner.layers}
        names = {layer: first.get(name, name) for layer, name in inside.items()}  # as in `named_parameters`
        chosen: dict[str, int] = {}
        kept: dict[str, str] = {}
        for layer in learner.select(scope) if learner.layers or scope != "all" else ():
            name = names[layer]
            is_asked = bool(scopes & {layer.role, layer.part})
            if name not in matrices.weights:
                kept[name] = matrices.skipped.get(name, f"no weight matrix of its {type(layer.module).__name__}")
            elif not matrices.weights[name].tensor.requires_grad:
                kept[name] = FROZEN
            elif name in matrices.spared and not is_asked:
                kept[name] = matrices.spared[name]
            else:
                chosen[name] = layer.split
        if "all" in scopes:
            chosen |= {
                n: w.split for n, w in matrices.weights.items() if n in matrices.several and n not in matrices.spared
            }
            in_layers = {*names.values(), *matrices.several}
            others = {name: "in none of the learner's layers" for name in matrices.weights if name not in in_layers}
            kept = {**others, **matrices.left(), **kept}
        return chosen, {name: why for name, why in kept.items() if name not in chosen}
