"""Hidden units that do not share weights with others: how to find them, and their statistics.

Units are (units,), or (members, units) in a stack, where every member is a network of its own. All functions are
batched over members, and members do not influence each other.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .activation_calls import parse_call_name
from .activations import Activation
from .activations.leaky import LearnedSlope
from .learner import Learner
from .modules import CONV, LAYER_NORM, LINEAR, NORMS, STACKED
from .ranks import average
from .recording import See, run_watched
from .wiring import Wiring


@dataclass(frozen=True)
class Hidden:
    """The units whose outputs one module returns.

    Attributes:
        name: The name of the call whose outputs they are.
        wires: The layers around them.
        shape: (units,) or (members, units).
        spatial: Whether the units are channels, whose outputs have several positions.
    """

    name: str
    wires: Wiring
    shape: tuple[int, ...]
    spatial: bool

    @property
    def width(self) -> int:
        return self.shape[-1]

    @property
    def stacked(self) -> bool:
        return len(self.shape) == 2

    def rows(self, output: Tensor) -> Tensor:
        """Return an output as (rows, units) or (members, rows, units). Each position in space is a row."""
        first = int(self.stacked)
        if self.spatial and output.ndim == first + 2 and output.shape[-1] % self.width == 0:
            output = output.unflatten(-1, (self.width, -1))  # flattened before the activation
        output = output.movedim(first + 1, -1) if self.spatial else output
        return output.flatten(first, -2).float()


def hidden_units(learner: Learner, who: str) -> dict[str, Hidden]:
    """Return the units that can be rewritten separately, by name, in forward order; others are left out.

    Raises:
        ValueError: There are no such units. The message has the reasons.
    """
    groups: dict[str, Hidden] = {}
    reasons: list[str] = []
    frozen, undrawn = learner.frozen(), learner.undrawn() if learner.units else []
    for unit in learner.units:
        try:
            if unit in learner.unwired:
                raise ValueError(f"'{unit}' {learner.unwired[unit]}")
            group = hidden(learner.module, unit, learner.wiring[unit])
            _check_values(learner, group, frozen, undrawn)
            groups[unit] = group
        except ValueError as error:
            reasons.append(str(error))
    if not learner.units:
        raise ValueError(f"{who}: '{learner.name}' has no hidden units: name them (Learner.units)")
    if not groups:
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        raise ValueError(f"{who}: '{learner.name}' has no private units: {reasons[0]}{more}")
    return groups


def _check_values(learner: Learner, group: Hidden, frozen: list[str], undrawn: list[str]) -> None:
    """Raise ValueError if weights of these units are frozen, or if no new values of them can be drawn."""
    if not frozen and not undrawn:
        return
    layers = (*group.wires.incoming, *group.wires.norms, *activation_module(group.name))
    drawn = [f"{layer}.{n}" for layer in layers for n, _ in learner.module.get_submodule(layer)._parameters.items()]
    for name in (*drawn, *(f"{layer}.weight" for layer in group.wires.outgoing)):
        if name in frozen:
            raise ValueError(f"'{group.name}' has no weights to rewrite: '{name.rpartition('.')[0]}' is frozen")
    if missing := [name for name in drawn if name in undrawn]:
        raise ValueError(
            f"'{group.name}' has no new weights to get: '{missing[0]}' cannot be drawn as at step 0 "
            f"(learner_for(…, fresh=…) takes a function that makes the network)"
        )


def hidden(module: nn.Module, unit: str, wires: Wiring) -> Hidden:
    """Return the units of one module. Raises ValueError if the layers around them do not fit."""
    incoming, outgoing = ([module.get_submodule(n) for n in names] for names in (wires.incoming, wires.outgoing))
    if not incoming or not outgoing:
        raise ValueError(f"'{unit}' has no layer {'after' if incoming else 'before'} it: name it in the wiring")
    call = parse_call_name(unit)
    for name, layer in zip((*wires.incoming, *wires.outgoing), (*incoming, *outgoing), strict=True):
        if layer._parameters.get("weight") is None:
            raise ValueError(f"'{unit}' has no weights to rewrite: that of '{name}' is parametrized")
    activation = None if call.function else module.get_submodule(call.path)
    if (
        isinstance(activation, nn.GLU)
        or call.function == "glu"
        or (isinstance(activation, Activation) and activation.preactivations(12) != activation.features(12))
    ):
        kind = call.function or type(activation).__name__
        raise ValueError(f"'{unit}' ({kind}) has not one unit for each output of '{wires.incoming[0]}'")
    spatial = isinstance(incoming[0], CONV)
    shape = sizes(incoming[0])[:-1]
    *members, width = shape
    fit = all(sizes(layer)[:-1] == shape for layer in incoming)
    for layer in outgoing:
        *readers, _, inputs = sizes(layer)
        flattened = spatial and isinstance(layer, LINEAR)
        fit &= (inputs % width == 0 if flattened else inputs == width) and getattr(layer, "groups", 1) == 1
        fit &= not members or readers == members
    for norm in map(module.get_submodule, wires.norms):
        fit &= all(gain.shape == shape for gain in own_tensors(norm)) and not (spatial and isinstance(norm, LAYER_NORM))
    if not fit:
        names = ", ".join((*wires.incoming, *wires.norms, *wires.outgoing))
        raise ValueError(
            f"'{unit}' has no rows and columns of its own in the layers around it: the sizes of {names} do not fit its "
            f"{times(shape)} units, or one is a grouped convolution"
        )
    return Hidden(unit, wires, shape, spatial)


@torch.no_grad()
def observe(
    learner: Learner, groups: Mapping[str, Hidden], inputs: Sequence[Any], statistic: Callable[[Tensor], Tensor]
) -> dict[str, Tensor]:
    """Run one forward pass in evaluation mode, and return a statistic of each module's units, by name.

    Units that the inputs do not pass through are left out, and those whose columns turn out not to be their own
    (`Learner.check_wiring`).

    Args:
        learner: The network.
        groups: The units to observe, by name.
        inputs: The positional arguments of the pass.
        statistic: Activations (…, rows, units) → any tensor. In several processes, it is averaged (see `average`).

    Raises:
        ValueError: No columns turned out to be those of single units.
    """
    learner.check_wiring(inputs)
    remaining = {name: group for name, group in groups.items() if name in learner.wiring}
    if groups and not remaining:
        hidden_units(learner, "units")  # raises, with the reasons
    seen: dict[str, Tensor] = {}

    def keep(group: Hidden) -> See:
        return lambda called: seen.__setitem__(group.name, statistic(group.rows(called.output)))

    run_watched(learner.module, inputs, {name: keep(each) for name, each in remaining.items()}, learner.run)
    return dict(zip(seen, average([*seen.values()]), strict=True))


def activation_module(unit: str) -> tuple[str, ...]:
    """Return the name of the module whose outputs are units, or nothing if they are those of a function."""
    call = parse_call_name(unit)
    return () if call.function else (call.path,)


def check_module(learner: Learner, unit: str, who: str) -> None:
    """Raise ValueError if the units are not the outputs of a module that is called once, for an intervention on it."""
    call = parse_call_name(unit)
    if call.function:
        raise ValueError(f"{who}: '{unit}' is a function, not a module: call a module there, such as nn.ReLU()")
    check_followers(learner, call.path, who)
    several = [other for other in learner.units if other != unit and parse_call_name(other).path == call.path]
    if call.number > 1 or several:
        raise ValueError(f"{who}: '{call.path}' is called several times: use a module of its own in each place")


def check_followers(learner: Learner, path: str, who: str) -> None:
    """Raise ValueError if a follower has no part of that name, for an intervention that replaces it in all."""
    for follower in learner.followers:
        if path not in dict(follower.named_modules()):
            raise ValueError(f"{who}: a {type(follower).__name__}, which follows '{learner.name}', has no '{path}'")


def activity_scores(magnitudes: Tensor) -> Tensor:
    """Return each unit's mean |h| over that of its layer (Sokar et al. 2023, as released).

    Scores are 1 on average, and 0 in a dead layer. magnitudes: mean |h| of each unit, (…, units).
    """
    return magnitudes / (magnitudes.mean(-1, keepdim=True) + 1e-9)


def small_gradients(gradients: Tensor, tau: float) -> Tensor:
    """Return a mask of the units with small gradients: (…, units, incoming weights) → (…, units).

    The gradients of a unit are small if the mean of |∂L/∂W| over its incoming weights is at most τ times the mean over
    its layer. In a layer without any gradient, all of them are. GraMa (Liu et al. 2025, arXiv:2505.24061) uses this
    instead of activity.
    """
    magnitudes = gradients.abs().mean(-1)
    return magnitudes <= tau * magnitudes.mean(-1, keepdim=True)


def incoming_gradients(group: Hidden, gradients: Mapping[str, Tensor]) -> Tensor | None:
    """Return the gradients of the weights before these units, (…, units, incoming weights).

    gradients: those of the network, by name of the parameter. Returns None if they do not contain the weights, because
    the units belong to another task.
    """
    weights = [f"{layer}.weight" for layer in group.wires.incoming]
    parts = [gradients[name].flatten(len(group.shape)) for name in weights if name in gradients]
    return torch.cat(parts, dim=-1) if parts else None


def outgoing_weights(module: nn.Module, group: Hidden) -> Iterator[tuple[nn.Module, Tensor]]:
    """Yield each layer that reads these units, and a view of its weight, (outputs, units, taps or positions).

    In a stack, the view has the shape (members, outputs, units, taps or positions).
    """
    for layer in map(module.get_submodule, group.wires.outgoing):
        weight = layer.get_parameter("weight").detach()
        *outer, _ = sizes(layer)
        yield layer, weight.reshape(*outer, group.width, -1)


def own_tensors(part: nn.Module) -> list[Tensor]:
    """Return the tensors with one entry per unit, (units,) or (members, units).

    They are those of a normalisation, or the slopes of an activation.
    """
    if isinstance(part, NORMS):
        tensors = [getattr(part, name, None) for name in ("weight", "bias", "running_mean", "running_var")]
        return [tensor for tensor in tensors if tensor is not None]
    return [part.get_parameter("weight")] if isinstance(part, (nn.PReLU, LearnedSlope)) else []


def sizes(layer: nn.Module) -> tuple[int, ...]:
    """Return (outputs, inputs) of a layer, or (members, outputs, inputs) of a stacked one."""
    return tuple(layer.get_parameter("weight").shape[: 3 if isinstance(layer, STACKED) else 2])


def times(shape: Sequence[int]) -> str:
    """Return a shape in words: "3 × 8"."""
    return " × ".join(map(str, shape))
