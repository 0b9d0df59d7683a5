"""Metrics of a learner: weights, units and gradients on recent data, by name.

Each member of a stack (the critics of SAC) is a network of its own. What is summed or pooled over matrices and layers
(dfi, norms, dormant units) is so over those of all members; a rank, which one feature matrix has, is the members' mean.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from .features import dormant_fraction, effective_rank, srank
from .weights import dfi, dfi_unscaled, weight_norm

if TYPE_CHECKING:  # a metric reads a learner; it needs nothing of the interventions room at run time
    from ..interventions.learner import Learner


@dataclass(frozen=True)
class Recording:
    """Post-activation units of one forward pass, as the modules put them out, by name in forward order."""

    units: dict[str, Tensor]

    @property
    def features(self) -> Tensor:
        """The last hidden layer's units, (rows, units): what the heads see; of a stack (members, rows, units)."""
        return self.units[next(reversed(self.units))]


@torch.no_grad()
def record(module: nn.Module, names: Sequence[str], inputs: Sequence[Any]) -> Recording:
    """Run `module(*inputs)` in evaluation mode and keep what the named submodules put out."""
    units: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[[nn.Module, Any, Tensor], None]:
        return lambda _module, _inputs, output: units.__setitem__(name, output.detach())

    training = module.training
    handles = [module.get_submodule(name).register_forward_hook(keep(name)) for name in names]
    try:
        module.eval()(*inputs)
    finally:
        module.train(training)
        for handle in handles:
            handle.remove()
    return Recording({name: units[name] for name in names})


@dataclass
class View:
    """A learner as it is now, looked at once: its probe is run once, and only if something asks."""

    learner: "Learner"
    _recording: Recording | None = None

    @property
    def recording(self) -> Recording:
        if self._recording is None:
            learner = self.learner
            if (inputs := learner.probe()) is None:
                raise RuntimeError(f"'{learner.name}' has seen no data yet")
            names = learner.units if learner.features is None else (*learner.units, learner.features)
            self._recording = record(learner.module, names, inputs)
        return self._recording

    @property
    def units(self) -> dict[str, tuple[Tensor, ...]]:
        """Post-activation units by module name: those of one network, or of each member of a stack."""
        return {name: self._members(name, of=name) for name in self.learner.units}

    @property
    def features(self) -> tuple[Tensor, ...]:
        """What the heads of one network, or of each member of a stack, see: (rows, units) each."""
        last = self.learner.units[-1]
        return self._members(self.learner.features or last, of=last)

    def _members(self, name: str, of: str) -> tuple[Tensor, ...]:
        """A module's outputs, for each member of the stack that the units `of` belong to."""
        output = self.recording.units[name]
        return output.unbind() if self.learner.is_stacked(of) else (output,)

    @property
    def has_units(self) -> bool:
        """Whether there is anything to record: hidden units, and data for them."""
        return bool(self.learner.units) and self.learner.probe() is not None

    def weights(self) -> list[Tensor]:
        """The weight matrices and kernels of the learner's layers; of a stacked layer, each member's matrix."""
        return [weight.detach() for layer in self.learner.layers for weight in layer.weights]


def _gradient_norm(view: View) -> float:
    """Global L2 norm of the loss gradient on the recent batch; existing .grad fields are not touched.

    In evaluation mode: a random activation would draw from the generator that training draws from.
    """
    module = view.learner.module
    parameters = [p for p in module.parameters() if p.requires_grad]
    training = module.training
    module.eval()
    gradients = torch.autograd.grad(view.learner.loss(), parameters, allow_unused=True)
    module.train(training)
    squares = [g.square().sum() for g in gradients if g is not None]
    return float(torch.stack(squares).sum().sqrt()) if squares else 0.0


def _per_dimension(weights: list[Tensor], value: Callable[[Tensor], float]) -> float:
    """The mean of a per-dimension value over all weights, each counted by its number of singular values."""
    sizes = [min(w.shape[:2]) * w[0, 0].numel() for w in weights]
    return sum(size * value(w) for size, w in zip(sizes, weights, strict=True)) / sum(sizes)


@dataclass(frozen=True)
class Metric:
    """A number that a learner has: what it is, what it can be taken from, and how."""

    about: str
    needs: Literal["weights", "batch", "units"]
    value: Callable[[View], float]


METRICS = {
    "dfi": Metric(
        "deviation from isometry (FIRE eq. 2), summed over the weight matrices as they are",
        "weights",
        lambda v: sum(dfi(w) for w in v.weights()),
    ),
    "dfi_per_dim": Metric(
        "deviation from isometry per dimension: mean of (σ² − 1)² over all singular values of all matrices",
        "weights",
        lambda v: _per_dimension(v.weights(), lambda w: dfi(w, per_dimension=True)),
    ),
    "dfi_unscaled": Metric(
        "the same of W / its FIRE scale: 0 when every matrix is a scaled isometry",
        "weights",
        lambda v: _per_dimension(v.weights(), dfi_unscaled),
    ),
    "weight_norm": Metric("L2 norm of all parameters", "weights", lambda v: weight_norm(v.learner.module)),
    "gradient_norm": Metric("L2 norm of the loss gradient on a recent batch", "batch", _gradient_norm),
    "dormant_fraction": Metric(
        "share of units that are (nearly) always 0 on a recent batch, pooled over layers",
        "units",
        lambda v: dormant_fraction([h for members in v.units.values() for h in members]),
    ),
    "srank": Metric(
        "smallest k whose singular values hold 99 % of the features' sum (Kumar et al. 2021)",
        "units",
        lambda v: fmean(map(srank, v.features)),
    ),
    "effective_rank": Metric(
        "exp of the entropy of the features' singular values (Roy & Vetterli 2007)",
        "units",
        lambda v: fmean(map(effective_rank, v.features)),
    ),
}


def measure(learner: "Learner | View", per_layer: bool = False) -> dict[str, float]:
    """Every metric of a learner on its recent data: name → number. A `View` is not recorded again.

    Only what can be taken: before it has seen any data, what its weights tell; without hidden units, nothing
    about units. per_layer adds `dormant_fraction/<units>` for each hidden layer, the members of a stack pooled.
    """
    view = learner if isinstance(learner, View) else View(learner)
    there = {"weights": True, "batch": view.learner.probe() is not None, "units": view.has_units}
    values = {name: float(metric.value(view)) for name, metric in METRICS.items() if there[metric.needs]}
    if per_layer and there["units"]:
        names = view.learner.origins  # a curve goes on under one name, whatever an intervention moved
        layers = {names.get(name, name): members for name, members in view.units.items()}
        values |= {f"dormant_fraction/{name}": dormant_fraction(members) for name, members in layers.items()}
    return values
