"""Full, head, role, layer and last-k resets return a part of the network to its initial parameters.

    θ_S ← θ₀_S   or   θ_S ← a new draw

for the parameters of a part S of the network. Everything learned in S is lost; the rest stays.

`what=optimizer` resets only the optimizer: slots and step counters of every tensor are zeroed in place, and nothing
else changes, target networks included (Juliani & Ash 2024, arXiv:2405.19153, do this for all their methods at a new
task).

Source: Nikishin et al. 2022, "The Primacy Bias in Deep RL".

Resets: according to its reset contract.

Cost: one copy of the part.
"""

from collections.abc import Mapping
from typing import Literal

from torch import Tensor, nn

from supple.networks import Learner, Scope, restore_

from .base import Reinitialization, check_within, interventions
from .contract import Preset, ResetContract, check_optimizer, settle

What = Literal["full", "encoder", "hidden", "head", "linear", "conv", "layer", "last", "optimizer"]
OPTIMIZER_ALONE = ResetContract(optimizer="fresh", target="kept")


@interventions.register("reset")
class Reset(Reinitialization):
    """Return part of the network to its initial parameters (Nikishin et al. 2022).

    Args:
        what: `full` (every parameter, and the running statistics of batch normalisation), a role (`encoder`, `hidden`,
            `head`), a kind (`linear`, `conv`), `layer` (the one named by `layer=`), `last` (the `count` deepest depths;
            parallel heads count as one), or `optimizer` (its state, and no parameter).
        layer: The name of the layer, with `what=layer` only.
        count: Number of depths, ≥ 1, with `what=last` only.
        toward: `initial`, the step-0 values, or `fresh`, a new draw.
        contract: What else is reset, `uniform` or `as_released`.
    """

    def __init__(
        self,
        what: What = "full",
        layer: str | None = None,
        count: int = 1,
        toward: Literal["initial", "fresh"] = "initial",
        contract: Preset = "uniform",
    ) -> None:
        super().__init__("all" if what in ("full", "layer", "last", "optimizer") else what, contract)
        if (layer is not None) != (what == "layer"):
            raise ValueError("reset: what=layer and layer=NAME need each other, as in reset(what=layer,layer='body.0')")
        check_within("reset", count=(count, "[1, ∞)"))
        if count > 1 and what != "last":
            raise ValueError(f"reset: count={count} needs what=last, got what={what}")
        if what == "optimizer" and (toward != "initial" or contract != "uniform"):
            raise ValueError("reset: what=optimizer writes no parameter, so leave out toward= and contract=")
        self.what, self.layer, self.count, self.toward = what, layer, count, toward

    def names(self, learner: Learner) -> list[str]:
        """Return the qualified names of the parameters that this reset rewrites."""
        if self.what == "full":
            return learner.writable()
        layers = learner.select(self.scope)
        if self.what == "layer":
            names = {layer: learner.origins.get(layer.name, layer.name) for layer in layers}
            layers = [layer for layer, name in names.items() if name == self.layer]
            if not layers:
                known = ", ".join(names.values())
                raise ValueError(f"reset: '{learner.name}' has no layer '{self.layer}' (layers: {known})")
        elif self.what == "last":
            deepest = sorted({layer.depth for layer in layers})[-self.count :]
            layers = [layer for layer in layers if layer.depth in deepest]
        return learner.parameters_of(layers)

    def attach(self, learner: Learner) -> None:
        if self.what == "optimizer":
            check_optimizer(learner.require_optimizer("reset"))
            return
        super().attach(learner)
        names = self.names(learner)
        if not names:
            raise ValueError(f"reset: all parameters of {self._describe_part()} of '{learner.name}' are frozen")
        if self.toward == "fresh":
            learner.check_drawn(names, "reset")

    def _describe_part(self) -> str:
        return {"layer": f"layer {self.layer}", "last": f"last {self.count}"}.get(self.what, self.what)

    def apply(self, learner: Learner) -> list[str]:
        if self.what == "optimizer":
            settle(learner, [], OPTIMIZER_ALONE)
            return []
        return super().apply(learner)

    def contract(self, learner: Learner) -> dict[str, str]:
        if self.what == "optimizer":
            return OPTIMIZER_ALONE.describe("kept", learner)
        return super().contract(learner) | {"weights": f"{self._describe_part()} → {self.toward}"}

    def rewrite(self, module: nn.Module, learner: Learner, start: Mapping[str, Tensor], scope: Scope) -> list[str]:
        names = self.names(learner)
        restore_(module, {name: start[name] for name in names})
        if self.what == "full":
            for part in module.modules():
                if callable(start_over := getattr(part, "reset_running_stats", None)):
                    start_over()
        return names
