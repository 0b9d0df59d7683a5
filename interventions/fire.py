"""FIRE (Frobenius–Isometry REinitialization) replaces weight matrices by their nearest isometry, scaled.

    W ← s · argmin ‖W − X‖²_F subject to XᵀX = I,   s = √(d_out/d_in), for convolutions per tap with 1/(k_h·k_w)

Of all isometries it takes the one nearest to the weights. It restores the conditioning of a network at initialisation
with the smallest change.

Source: the FIRE paper (Han et al. 2026, arXiv 2602.08040), eq. 4 and 5, Appendix C.

Resets: weight matrices only. Biases, normalisation layers and parameters outside layers are kept. The rest follows the
reset contract.

Cost: `steps` × 4·N·k² operations for a matrix with sides N ≥ k; milliseconds for the network of an agent.
"""

from collections.abc import Mapping

from torch import Tensor, nn

from ..networks.layers import Scope
from ..networks.learner import Learner
from .base import Reinitialization, interventions
from .contract import Preset
from .isometry import fire_
from .orthogonalize import check_method


@interventions.register("fire")
class Fire(Reinitialization):
    """Replace weight matrices by their nearest isometry, scaled (the FIRE paper).

    Ten cubic Newton–Schulz steps, the released default, do not reach an isometry for square matrices.
    Use `tolerance` or `method=polar` if that matters. Events record DfI before and after.

    scope: By default all layers, or those to which the paper restricts FIRE on this network (`Learner.fire_scope`): the
        query and key projections of a vision transformer, whose other layers did not gain (Appendix C).
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
        return learner.fire_scope if self.as_in_paper else self.scope

    def rewrite(self, module: nn.Module, learner: Learner, start: Mapping[str, Tensor], scope: Scope) -> list[str]:
        split = {f"{layer.name}.weight": layer.split for layer in learner.select(scope)}
        return fire_(module, self.method, self.steps, self.tolerance, names=split, split=split)
