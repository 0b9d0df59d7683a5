"""Whether units keep to the weights that their wiring names, tried out on inputs.

The graph of a network does not show everything: a layer of one's own may normalise its weight as a whole, add noise to
it, or permute its inputs, and a hook may do anything. If the wiring is right, three passes have equal outputs: units
set to 0; their columns set to 0 instead; and other incoming weights besides.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from .modules import BATCH_NORM, CONV, INSTANCE_NORM, LINEAR, NORMS, STACKED
from .normalization import SpectralLinear, StackedSpectralLinear
from .recording import Called, run_watched
from .unchanged import exchange
from .wiring import Wiring

SPECTRAL = (SpectralLinear, StackedSpectralLinear)  # of which interventions see the weight as it is stored
OTHER = -1.5  # times their incoming weights are other ones

Run = Callable[..., Any]


@torch.no_grad()
def find_entangled_units(
    module: nn.Module, wiring: Mapping[str, Wiring], inputs: Sequence[Any], forward: Run | None = None
) -> dict[str, str]:
    """Return the units that have other ways to the outputs than their wiring, with the reasons.

    A reason completes a sentence that begins with the unit's name. It takes four passes, and three more for each unit
    module if something is wrong. Units that share statistics with others by a normalisation are not tried where these
    matter, nor is a network without finite outputs, or with other outputs each time.

    Args:
        module: The network.
        wiring: The wiring that was found by tracing.
        inputs: The positional arguments of a forward pass.
        forward: What is called instead of the module.
    """
    trial = _Trial(module, wiring, inputs, forward)
    if not trial.wrong(trial.tried):
        return {}
    reasons = {unit: trial.wrong([unit]) for unit in trial.tried}
    return {unit: reason for unit, reason in reasons.items() if reason}


class _Trial:
    """The passes. `tried` are the units that can be tried; every second one of a module is changed."""

    def __init__(
        self, module: nn.Module, wiring: Mapping[str, Wiring], inputs: Sequence[Any], forward: Run | None
    ) -> None:
        self.module, self.wiring, self.inputs, self.forward = module, wiring, inputs, forward
        self.names: dict[Tensor, str] = {parameter: name for name, parameter in module.named_parameters()}
        self.tried: list[str] = []
        self.separate: set[str] = set()  # units whose outputs no normalisation behind them changes
        order = self._order()
        for unit, wires in wiring.items():
            self._consider(unit, wires, order)

    def _order(self) -> dict[str, tuple[int, Tensor]]:
        """Return when units, layers and normalisations were called last, with their outputs."""
        order: dict[str, tuple[int, Tensor]] = {}

        def note(name: str, called: Called) -> None:
            if isinstance(called.output, Tensor):
                order[name] = len(order), called.output

        parts = [name for name, part in self.module.named_modules() if isinstance(part, (*NORMS, *LINEAR, *CONV))]
        run_watched(self.module, self.inputs, {n: partial(note, n) for n in (*self.wiring, *parts)}, self.forward)
        return order

    def _consider(self, unit: str, wires: Wiring, order: Mapping[str, tuple[int, Tensor]]) -> None:
        layers = [self.module.get_submodule(name) for name in (*wires.incoming, *wires.outgoing)]
        if unit not in order or any(name not in order for name in (*wires.incoming, *wires.outgoing)):
            return
        if any(isinstance(layer, SPECTRAL) or layer._parameters.get("weight") is None for layer in layers):
            return
        if self._places(unit, order[unit][1]) is None or not self._fits(unit):
            return
        start, here = (order[name][0] for name in (wires.incoming[0], unit))
        end = max(order[name][0] for name in wires.outgoing)
        norms = {n: at for n, (at, _) in order.items() if isinstance(self._part(n), NORMS) and start < at < end}
        if any(not isinstance(self._part(name), (*BATCH_NORM, *INSTANCE_NORM)) for name in norms):
            return
        activation = self._part(unit)
        hooks = () if activation is None else activation._forward_pre_hooks.values()
        if any(getattr(hook, "shares_statistics", False) for hook in hooks):  # a normalisation (nap)
            return
        self.tried.append(unit)
        if not any(at > here for at in norms.values()):
            self.separate.add(unit)

    def _fits(self, unit: str) -> bool:
        """Return whether each unit has the same number of columns in the layers that read it."""
        inputs = []
        for layer in map(self.module.get_submodule, self.wiring[unit].outgoing):
            inputs.append(layer.get_parameter("weight").shape[1 + isinstance(layer, STACKED)])
        return all(size and size % len(self._changed(unit)) == 0 for size in inputs)

    def _part(self, name: str) -> nn.Module | None:
        try:
            return self.module.get_submodule(name)
        except AttributeError:  # the call of a function
            return None

    def _places(self, unit: str, output: Tensor) -> Tensor | None:
        """Return a mask of the units that are changed, broadcastable to their outputs; None for an unknown shape."""
        layer = self.module.get_submodule(self.wiring[unit].incoming[0])
        axis = 1 + isinstance(layer, STACKED)
        changed = self._changed(unit)
        if not isinstance(layer, CONV):
            return changed if output.ndim > axis and output.shape[-1] == len(changed) else None
        if output.ndim == layer.get_parameter("weight").ndim and output.shape[axis] == len(changed):
            return changed.view(-1, *[1] * (output.ndim - axis - 1))
        if output.ndim == axis + 1 and output.shape[-1] % len(changed) == 0:  # flattened before the activation
            return changed.repeat_interleave(output.shape[-1] // len(changed))
        return None

    def _changed(self, unit: str) -> Tensor:
        """Return a mask of about half of the units, another one for each module of units."""
        layer = self.module.get_submodule(self.wiring[unit].incoming[0])
        weight = layer.get_parameter("weight")
        draws = torch.Generator().manual_seed(list(self.wiring).index(unit))
        return (torch.rand(weight.shape[int(isinstance(layer, STACKED))], generator=draws) < 0.5).to(weight.device)

    def wrong(self, units: Sequence[str]) -> str:
        """Return what is wrong with these units, or ""."""
        separate = [unit for unit in units if unit in self.separate]
        without: dict[str, Tensor] = {}
        for unit in units:
            self._clear_columns(unit, without)
        cleared = self._outputs(without)
        if separate:
            others: dict[str, Tensor] = {}  # the columns of the other units are 0 in both passes
            for unit in units:
                if unit not in self.separate:
                    self._clear_columns(unit, others)
            silenced = self._outputs(others, separate)
            if not self._alike(silenced, cleared) and self._alike(silenced, self._outputs(others, separate)):
                return (
                    "has no private outgoing weights: the network does not treat the columns of "
                    f"'{self.wiring[units[0]].outgoing[0]}' apart (a layer or hook of its own does otherwise)"
                )
        more = dict(without)
        for unit in units:
            self._change_rows(unit, more)
        if not self._alike(cleared, self._outputs(more)) and self._alike(cleared, self._outputs(without)):
            return (
                "has no private incoming weights: the network does not treat the rows of "
                f"'{self.wiring[units[0]].incoming[0]}' apart (a layer or hook of its own does otherwise)"
            )
        return ""

    def _clear_columns(self, unit: str, values: dict[str, Tensor]) -> None:
        changed = self._changed(unit)
        for path in self.wiring[unit].outgoing:
            layer = self.module.get_submodule(path)
            name = self.names[layer.get_parameter("weight")]
            weight = values.get(name, layer.get_parameter("weight").detach())
            axis = 1 + isinstance(layer, STACKED)
            columns = changed.repeat_interleave(weight.shape[axis] // len(changed))
            values[name] = weight.masked_fill(columns.view(-1, *[1] * (weight.ndim - axis - 1)), 0)

    def _change_rows(self, unit: str, values: dict[str, Tensor]) -> None:
        for path in self.wiring[unit].incoming:
            layer = self.module.get_submodule(path)
            for parameter in layer.parameters(recurse=False):
                name, axis = self.names[parameter], int(isinstance(layer, STACKED))
                value = values.get(name, parameter.detach())
                if parameter.ndim > axis and len(changed := self._changed(unit)) == parameter.shape[axis]:
                    rows = changed.view(-1, *[1] * (value.ndim - axis - 1))
                    values[name] = torch.where(rows, OTHER * value, value)

    def _outputs(self, values: Mapping[str, Tensor], silenced: Iterable[str] = ()) -> list[Tensor]:
        """Return the outputs with these values, and with units set to 0."""

        def silence(unit: str, called: Called) -> None:
            mask = self._places(unit, called.output)
            if mask is not None:
                called.output.masked_fill_(mask, 0)

        watch = {unit: partial(silence, unit) for unit in silenced}
        with exchange(self.module, values):
            outputs = run_watched(self.module, self.inputs, watch, self.forward)
        leaves = [leaf for output in tree_leaves(outputs) for leaf in _inside(output)]
        return [leaf.detach() for leaf in leaves if isinstance(leaf, Tensor) and leaf.is_floating_point()]

    def _alike(self, a: list[Tensor], b: list[Tensor]) -> bool:
        """Return whether outputs are equal but for rounding, or cannot be compared."""
        if not all(output.isfinite().all() for output in (*a, *b)):
            return True
        if len(a) != len(b) or any(x.shape != y.shape for x, y in zip(a, b, strict=True)):
            return True
        return all(
            float((x - y).abs().max()) <= torch.finfo(x.dtype).eps ** 0.5 * float(x.abs().max())
            for x, y in zip(a, b, strict=True)
            if x.numel()
        )


def _inside(output: Any) -> Iterable[Any]:
    """Return an output itself, or the attributes of an object such as a distribution."""
    return [output] if isinstance(output, Tensor) else tree_leaves(getattr(output, "__dict__", ()))
