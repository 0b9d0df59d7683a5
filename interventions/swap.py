"""Swapping the activation of a network during training, with its weights unchanged.

    φ ← φ′  in every layer of hidden units;  θ and the optimizer's state stay

Target networks get the same activation. Parameters of the new activation (`prelu`, `rational`) start at its defaults
and join the optimizer; those of the old one leave it. The network computes another function afterwards, and recordings
of it are captured again.

Source: Lillo & Cheney 2025, arXiv:2509.22562, who identify the activation as a cause of lost plasticity and as a
remedy.

Resets: nothing, but the optimizer state of the activations' own parameters starts fresh.

Cost: none.
"""

from torch import Tensor, nn

from supple.networks import Learner, evaluating
from supple.networks.activations import Activation, Units, set_generators
from supple.networks.hidden_units import check_module
from supple.networks.modules import CONV, STACKED, is_activation
from supple.networks.ranks import require_one

from .base import Intervention, interventions
from .contract import check_optimizer

WIDTH = 12  # of a layer by which an activation is asked whether it keeps widths


@interventions.register("swap")
class Swap(Intervention):
    """Give all hidden units another activation: `swap(activation=leaky_relu(negative_slope=0.6))`.

    Units keep their names. Weights are not adapted to the gain of the new activation. Heads that plasticity injection
    froze keep their activation.

    Args:
        activation: Its text, as for `--activation`. The old and the new one must have one feature for each
            pre-activation. With crelu, deep_fourier or swiglu the layers have other shapes, so these must be chosen at
            the start.
    """

    def __init__(self, activation: str) -> None:
        if _changes_widths(Units(activation)):
            raise ValueError(f"swap: {activation} changes the number of features; choose it with --activation")
        self.activation = activation

    def concerns(self, learner: Learner) -> bool:
        """Return whether there are hidden units."""
        return bool(learner.units)

    def attach(self, learner: Learner) -> None:
        if not learner.units:
            raise ValueError(f"swap: '{learner.name}' has no hidden units")
        for unit in learner.units:
            check_module(learner, unit, "swap")
            old = learner.module.get_submodule(unit)
            kind = type(old).__name__
            if not is_activation(old):
                raise ValueError(f"swap: '{unit}' is a {kind}, not an activation module, and cannot be replaced")
            if isinstance(old, nn.GLU) or (isinstance(old, Activation) and _changes_widths(old)):
                raise ValueError(f"swap: {kind} changes the number of features; '{unit}' cannot become another")
            if learner.layer_before(unit) is None:
                raise ValueError(f"swap: '{unit}' has no known layer before it; name it in the wiring")

        parametric = [Units(self.activation)(WIDTH), *map(learner.module.get_submodule, learner.units)]
        if any(True for part in parametric for _ in part.parameters()):
            require_one("swap")
            check_optimizer(learner.optimizer)  # their parameters join or leave it

    def contract(self, learner: Learner) -> dict[str, str]:
        terms = {
            "weights": "kept",
            "activations": f"{self.activation} in all {len(learner.units)} places",
            "optimizer state": "kept; that of the activations' own parameters starts fresh",
            "target network": "kept, with the same activations",
        }
        has = {"optimizer state": learner.optimizer is not None, "target network": bool(learner.followers)}
        return {name: text for name, text in terms.items() if has.get(name, True)}

    def restructure(self, learner: Learner) -> None:
        self.attach(learner)
        before = dict(learner.module.named_parameters())
        for module in (learner.module, *learner.followers):
            self._replace(module, learner)
        for follower in learner.followers:
            follower.requires_grad_(False)
        after = dict(learner.module.named_parameters())
        leaving = {name: p for name, p in before.items() if after.get(name) is not p}
        joining = {name: p for name, p in after.items() if before.get(name) is not p}
        learner.initial = {name: value for name, value in learner.initial.items() if name not in leaving} | {
            name: p.detach().clone() for name, p in joining.items()
        }
        draw = learner.redraw
        learner.redraw = lambda: {name: v for name, v in draw().items() if name not in leaving and name not in joining}
        if learner.optimizer is not None:
            gone = set(leaving.values())
            for group in learner.optimizer.param_groups:
                group["params"][:] = [p for p in group["params"] if p not in gone]
            for parameter in gone:
                learner.optimizer.state.pop(parameter, None)
            learner.optimizer.param_groups[0]["params"].extend(joining.values())
        if learner.activation_draws:
            set_generators(learner.module, learner.activation_draws)
        learner.renewed |= dict.fromkeys(joining, len(learner.changes))
        learner.changes.append(str(self))

    def apply(self, learner: Learner) -> list[str]:
        self.restructure(learner)
        return [f"{u}.{name}" for u in learner.units for name, _ in learner.module.get_submodule(u).named_parameters()]

    def _replace(self, module: nn.Module, learner: Learner) -> None:
        """Put new activations into the learner's module or a follower in place of the old ones."""
        factories: dict[int, Units] = {}  # one for all layers, which may share a slope
        new: dict[nn.Module, nn.Module] = {}
        for unit in learner.units:
            layer, old = learner.layer_before(unit, module), module.get_submodule(unit)
            assert layer is not None
            with evaluating(layer):  # else a parametrization may change its buffers
                weight: Tensor = layer.weight  # type: ignore[assignment]
            stacked = isinstance(layer, STACKED)
            places = weight.ndim - 2 - stacked if isinstance(layer, CONV) else 0
            members = len(weight) if stacked else 0
            units = factories.setdefault(members, Units(self.activation, members))
            new[old] = units(weight.shape[int(stacked)], -1 - places).to(weight).train(old.training)
            for hook in old._forward_pre_hooks.values():  # a normalisation (nap) stays before the units
                new[old].register_forward_pre_hook(hook)
        for parent in list(module.modules()):
            for name, child in parent._modules.items():
                if child in new:
                    parent._modules[name] = new[child]


def _changes_widths(activation: Units | Activation) -> bool:
    return activation.preactivations(WIDTH) != activation.features(WIDTH)
