"""Reinitialisation of single units, and its description in reports, for the interventions on units."""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from supple.networks import Learner, Wiring
from supple.networks.hidden_units import activation_module, hidden, hidden_units, own_tensors, sizes, times
from supple.networks.parameters import names_by_parameter

Outgoing = Literal["zero", "kept"]


@torch.no_grad()
def recycle_(
    module: nn.Module,
    masks: Mapping[str, Tensor],
    wiring: Mapping[str, Wiring],
    fresh: Mapping[str, Tensor],
    outgoing: Outgoing = "zero",
) -> dict[str, Tensor]:
    """Reinitialise units of any module, in place.

    Incoming weights are drawn from `fresh`, and their bias becomes 0. Gains and shifts of normalisations, and slopes of
    the units, come from `fresh`. Running statistics return to 0 and 1.

    Args:
        module: The network.
        masks: Unit module → boolean mask of the units to reinitialise, (units,), or (members, units) in a stack.
        wiring: Unit module → its incoming and outgoing layers. After convolutions, a Linear layer reads the channels
            one after the other, each with all its positions (PyTorch's flattening of C, H, W).
        fresh: New parameters of the incoming layers and of normalisations, by name, as `redraw(module)` returns.
        outgoing: "zero" sets the outgoing weights to 0, "kept" leaves them as they are.

    Returns:
        For each parameter written, a boolean mask, broadcastable to it, of the entries written.

    Raises:
        ValueError: Widths do not fit. Nothing was changed.
    """
    names = names_by_parameter(module)
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
            draw(layer.get_parameter("weight"), broadcast_over_rows(mask, layer))
            if layer.bias is not None:
                layer.get_parameter("bias").masked_fill_(mask, 0)
                note(layer.get_parameter("bias"), mask)
        for part in map(module.get_submodule, (*wiring[unit].norms, *activation_module(unit))):
            for tensor in own_tensors(part):
                if tensor.shape == mask.shape and isinstance(tensor, nn.Parameter):
                    draw(tensor, mask)
            for name, start in (("running_mean", 0.0), ("running_var", 1.0)):
                if isinstance(statistics := getattr(part, name, None), Tensor):
                    statistics.masked_fill_(mask, start)
    # after all draws, so that reinitialised units do not read each other either
    for unit, mask in masks.items() if outgoing == "zero" else ():
        for layer in map(module.get_submodule, wiring[unit].outgoing):
            weight = layer.get_parameter("weight")
            columns = broadcast_over_columns(mask, layer)
            weight.masked_fill_(columns, 0)
            note(weight, columns)
    return written


def describe_reach(effect: str, learner: Learner, who: str) -> str:
    """Return an effect, for reports, with the number of unit modules that it holds for unless it holds for all."""
    usable, all_ = len(hidden_units(learner, who)), len(learner.units)
    return effect if usable == all_ else f"{effect} (private units alone: {usable} of {all_} modules)"


def broadcast_over_rows(values: Tensor, layer: nn.Module) -> Tensor:
    """Return a value for each unit, (…, units), broadcastable to the weight of a layer before the units."""
    return _broadcast_over_kernel(values.unsqueeze(-1), layer)


def broadcast_over_columns(values: Tensor, layer: nn.Module) -> Tensor:
    """Return a value for each unit, (…, units), broadcastable to the weight of a layer that reads the units.

    After convolutions, a Linear layer reads the channels one after the other, each with all its positions.
    """
    inputs = values.repeat_interleave(sizes(layer)[-1] // values.shape[-1], dim=-1)
    return _broadcast_over_kernel(inputs.unsqueeze(-2), layer)


def _broadcast_over_kernel(entries: Tensor, layer: nn.Module) -> Tensor:
    """Return matrix entries, broadcastable to a layer's weight: the same at all positions of a kernel."""
    return entries.view(*entries.shape, *[1] * (layer.get_parameter("weight").ndim - len(sizes(layer))))
