"""What the interventions on single units share: which units there are, what they do, how they are drawn anew.

Units are (units,), or (members, units) in a stack, where every member is a network of its own: all of what follows is
batched over members, and no member has an influence on another.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .activations import Activation
from .activations.leaky import LearnedSlope
from .learner import Learner
from .wiring import CONV, LAYER_NORM, LINEAR, NORMS, STACKED, Wiring


@dataclass(frozen=True)
class Hidden:
    """The units that one module puts out.

    shape: (units,) or (members, units). spatial: they are channels, and each is read at many places."""

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
        """What the module put out, as (rows, units) or (members, rows, units); a place in space is a row.

        Raises ValueError where that has another width than the layer before."""
        first = int(self.stacked)
        if self.spatial and output.ndim == first + 2 and output.shape[-1] % self.width == 0:
            output = output.unflatten(-1, (self.width, -1))  # flattened before the activation
        output = output.movedim(first + 1, -1) if self.spatial else output
        if output.shape[-1] != self.width:
            layers = ", ".join(self.wires.incoming)
            raise ValueError(
                f"'{self.name}' has {output.shape[-1]} units, but {layers} has {_times(self.shape)} outputs"
            )
        return output.flatten(first, -2).float()


def hidden_units(learner: Learner, who: str) -> dict[str, Hidden]:
    """The units that can be rewritten alone, by name, in forward order; others are left out.

    Raises ValueError, with the reasons, where there are none at all."""
    found: dict[str, Hidden] = {}
    reasons: list[str] = []
    for unit in learner.units:
        try:
            if unit in learner.unwired:
                raise ValueError(f"'{unit}' {learner.unwired[unit]}")
            found[unit] = hidden(learner.module, unit, learner.wiring[unit])
        except ValueError as error:
            reasons.append(str(error))
    if not learner.units:
        raise ValueError(f"{who}: '{learner.name}' has no hidden units: name them (Learner.units)")
    if not found:
        more = f" (and {len(reasons) - 3} more)" if len(reasons) > 3 else ""
        raise ValueError(f"{who}: '{learner.name}' has no private units: {'; '.join(reasons[:3])}{more}")
    return found


def hidden(module: nn.Module, unit: str, wires: Wiring) -> Hidden:
    """The units of one module, after checking that the layers around them fit; else ValueError."""
    incoming, outgoing = ([module.get_submodule(n) for n in names] for names in (wires.incoming, wires.outgoing))
    if not incoming or not outgoing:
        raise ValueError(f"'{unit}' has no layer {'after' if incoming else 'before'} it: name it in the wiring")
    activation = module.get_submodule(unit)
    if isinstance(activation, nn.GLU) or (
        isinstance(activation, Activation) and activation.preactivations(12) != activation.features(12)
    ):
        kind = type(activation).__name__
        raise ValueError(f"'{unit}' ({kind}) has not one unit for each output of '{wires.incoming[0]}'")
    shapes = {_sizes(layer)[:-1] for layer in incoming}
    shape = shapes.pop()
    *members, width = shape
    if shapes:
        raise ValueError(f"the layers before '{unit}' have different widths: {', '.join(wires.incoming)}")
    for name, layer in zip(wires.outgoing, outgoing, strict=True):
        if getattr(layer, "groups", 1) > 1:
            raise ValueError(f"'{name}', which reads '{unit}', is a grouped convolution")
        *readers, _, inputs = _sizes(layer)
        if members and readers != members:
            raise ValueError(f"'{name}', which reads '{unit}', is no stack of {members[0]} members, as that is")
        flattened = isinstance(incoming[0], CONV) and isinstance(layer, LINEAR)
        if inputs % width if flattened else inputs != width:
            raise ValueError(f"'{name}' has {inputs} inputs, which do not fit the {width} units of '{unit}'")
    spatial = isinstance(incoming[0], CONV)
    for name in wires.norms:
        norm = module.get_submodule(name)
        if any(gain.shape != shape for gain in _own(norm)) or (spatial and isinstance(norm, LAYER_NORM)):
            raise ValueError(f"'{name}', before '{unit}', has not one gain and shift for each of the {width} units")
    return Hidden(unit, wires, shape, spatial)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode, in which nothing is drawn and no statistics are updated, and each part's own mode afterwards."""
    trained = [part for part in module.modules() if part.training]
    for part in trained:
        part.training = False
    try:
        yield
    finally:
        for part in trained:
            part.training = True


@torch.no_grad()
def observe(
    learner: Learner, groups: Mapping[str, Hidden], inputs: Sequence[Any], statistic: Callable[[Tensor], Tensor]
) -> dict[str, Tensor]:
    """One forward pass in evaluation mode, and a statistic of each module's units in it, by name.

    statistic: activations (…, rows, units) → any tensor. Units that the inputs do not pass through are left out."""
    seen: dict[str, Tensor] = {}

    def keep(group: Hidden) -> Callable[[nn.Module, Any, Tensor], None]:
        return lambda _module, _inputs, output: seen.__setitem__(group.name, statistic(group.rows(output)))

    handles = [learner.module.get_submodule(name).register_forward_hook(keep(each)) for name, each in groups.items()]
    try:
        with evaluating(learner.module):
            learner.module(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return seen


@torch.no_grad()
def recycle_(
    module: nn.Module, masks: Mapping[str, Tensor], wiring: Mapping[str, Wiring], fresh: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Draw units of any module anew, in place: incoming weights from `fresh`, their bias 0, outgoing weights 0; the
    gains and shifts of norms, and slopes of its own, from `fresh`, running statistics as at the start (0 and 1).

    masks: unit module → boolean mask of those to be drawn anew, (units,), or (members, units) in a stack.
    wiring: unit module → its incoming and outgoing layers. After convolutions, a Linear reads the channels one
        after the other, each with all its places (PyTorch's flattening of C, H, W).
    fresh: new parameters of the incoming layers, and of norms, by name, such as `redraw(module)` gives.
    Returns for each parameter written a boolean mask, broadcastable to it, of the entries written.
    Raises ValueError, changing nothing, where widths do not fit.
    """
    names: dict[Tensor, str] = {parameter: name for name, parameter in module.named_parameters()}
    groups = {unit: hidden(module, unit, wiring[unit]) for unit in masks}
    written: dict[str, Tensor] = {}

    def note(parameter: Tensor, mask: Tensor) -> None:
        name = names[parameter]
        written[name] = written[name] | mask if name in written else mask

    def draw(parameter: Tensor, mask: Tensor) -> None:
        parameter.copy_(torch.where(mask, fresh[names[parameter]].to(parameter), parameter))
        note(parameter, mask)

    for unit, mask in masks.items():
        if mask.shape != groups[unit].shape:
            layers = ", ".join(wiring[unit].incoming)
            raise ValueError(
                f"'{unit}' has {_times(mask.shape)} units, but {layers} has {_times(groups[unit].shape)} outputs"
            )
    for unit, mask in masks.items():
        for layer in map(module.get_submodule, wiring[unit].incoming):
            draw(layer.get_parameter("weight"), _over_places(mask.unsqueeze(-1), layer))
            if layer.bias is not None:
                layer.get_parameter("bias").masked_fill_(mask, 0)
                note(layer.get_parameter("bias"), mask)
        for part in map(module.get_submodule, (*wiring[unit].norms, unit)):
            for own in _own(part):
                if own.shape == mask.shape and isinstance(own, nn.Parameter):
                    draw(own, mask)
            for name, start in (("running_mean", 0.0), ("running_var", 1.0)):
                if isinstance(statistics := getattr(part, name, None), Tensor):
                    statistics.masked_fill_(mask, start)
    # after all draws: a unit drawn anew must not hear the others, either
    for unit, mask in masks.items():
        for layer in map(module.get_submodule, wiring[unit].outgoing):
            weight = layer.get_parameter("weight")
            inputs = mask.repeat_interleave(_sizes(layer)[-1] // mask.shape[-1], dim=-1)
            columns = _over_places(inputs.unsqueeze(-2), layer)
            weight.masked_fill_(columns, 0)
            note(weight, columns)
    return written


def outgoing_weights(module: nn.Module, group: Hidden) -> Iterator[tuple[nn.Module, Tensor]]:
    """Each layer that reads these units, and its weight by unit: (outputs, units, taps or places), or
    (members, outputs, units, taps or places)."""
    for layer in map(module.get_submodule, group.wires.outgoing):
        weight = layer.get_parameter("weight").detach()
        *outer, _ = _sizes(layer)
        yield layer, weight.reshape(*outer, group.width, -1)


def where(words: str, learner: Learner, who: str) -> str:
    """Words for a report, with how many of the modules of units they hold for, unless for all."""
    usable, all_ = len(hidden_units(learner, who)), len(learner.units)
    return words if usable == all_ else f"{words} (private units alone: {usable} of {all_} modules)"


def _own(part: nn.Module) -> list[Tensor]:
    """What a norm, or an activation with a slope for each unit, has for single units."""
    if isinstance(part, NORMS):
        found = [getattr(part, name, None) for name in ("weight", "bias", "running_mean", "running_var")]
    else:
        found = [part.get_parameter("weight")] if isinstance(part, (nn.PReLU, LearnedSlope)) else []
    return [tensor for tensor in found if tensor is not None]


def _sizes(layer: nn.Module) -> tuple[int, ...]:
    """(outputs, inputs) of a layer, or (members, outputs, inputs) of a stacked one."""
    return tuple(layer.get_parameter("weight").shape[: 3 if isinstance(layer, STACKED) else 2])


def _over_places(mask: Tensor, layer: nn.Module) -> Tensor:
    """A mask of matrix entries, broadcastable to a layer's weight: the same at all places of a kernel."""
    return mask.view(*mask.shape, *[1] * (layer.get_parameter("weight").ndim - len(_sizes(layer))))


def _times(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))
