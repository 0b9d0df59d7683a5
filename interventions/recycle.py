"""What the interventions on single units share: how units are drawn anew, and what reports say of it."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..networks.learner import Learner
from ..networks.units import hidden, hidden_units, own_tensors, sizes, times
from ..networks.wiring import Wiring


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
                f"'{unit}' has {times(mask.shape)} units, but {layers} has {times(groups[unit].shape)} outputs"
            )
    for unit, mask in masks.items():
        for layer in map(module.get_submodule, wiring[unit].incoming):
            draw(layer.get_parameter("weight"), over_rows(mask, layer))
            if layer.bias is not None:
                layer.get_parameter("bias").masked_fill_(mask, 0)
                note(layer.get_parameter("bias"), mask)
        for part in map(module.get_submodule, (*wiring[unit].norms, unit)):
            for own in own_tensors(part):
                if own.shape == mask.shape and isinstance(own, nn.Parameter):
                    draw(own, mask)
            for name, start in (("running_mean", 0.0), ("running_var", 1.0)):
                if isinstance(statistics := getattr(part, name, None), Tensor):
                    statistics.masked_fill_(mask, start)
    # after all draws: a unit drawn anew must not hear the others, either
    for unit, mask in masks.items():
        for layer in map(module.get_submodule, wiring[unit].outgoing):
            weight = layer.get_parameter("weight")
            columns = over_columns(mask, layer)
            weight.masked_fill_(columns, 0)
            note(weight, columns)
    return written


def where(words: str, learner: Learner, who: str) -> str:
    """Return words for a report, with how many of the modules of units they hold for, unless for all."""
    usable, all_ = len(hidden_units(learner, who)), len(learner.units)
    return words if usable == all_ else f"{words} (private units alone: {usable} of {all_} modules)"


def over_rows(values: Tensor, layer: nn.Module) -> Tensor:
    """Return a value for each unit, (…, units), broadcastable to the weight of a layer before them."""
    return _over_places(values.unsqueeze(-1), layer)


def over_columns(values: Tensor, layer: nn.Module) -> Tensor:
    """Return a value for each unit, (…, units), broadcastable to the weight of a layer that reads them; after
    convolutions, a Linear reads the channels one after the other, each with all its places."""
    inputs = values.repeat_interleave(sizes(layer)[-1] // values.shape[-1], dim=-1)
    return _over_places(inputs.unsqueeze(-2), layer)


def _over_places(entries: Tensor, layer: nn.Module) -> Tensor:
    """Return matrix entries, broadcastable to a layer's weight: the same at all places of a kernel."""
    return entries.view(*entries.shape, *[1] * (layer.get_parameter("weight").ndim - len(sizes(layer))))
