"""ReDo, recycling dormant neurons (Sokar et al. 2023, "The Dormant Neuron Phenomenon in Deep Reinforcement Learning").

    score_i = mean|h_i| / (mean of mean|h| over the layer + 1e-9),   dormant where score_i ≤ τ

over recent inputs, for convolutions over space as well. The denominator is the layer's *mean*, as in Dopamine's
released code (the paper can be read as a sum). Of a dormant unit the incoming weights are drawn anew, the bias is
0, and the outgoing weights are 0, also those to units drawn anew; the next layer's bias stays. So where a unit was
silent on an input, the outputs on that input do not change; and dead layers in a row come back from below, one at
each application. Cost: one pass over the recent inputs, and one draw of the network's parameters if
any unit is dormant; then nothing else happens. Each member of a stack is a network of its own here: its layers have
means and masks of their own, and all are rewritten together.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .base import Intervention, interventions
from .contract import Preset, check_optimizer, contract_for, settle
from .learner import CONV, LINEAR, Learner, Wiring
from .stacked import StackedLinear


@interventions.register("redo")
class Redo(Intervention):
    """Re-draw dormant units: incoming weights fresh, bias and outgoing weights 0 (Sokar et al. 2023).

    tau: a unit is dormant when its score, on average 1 in a layer, is at most this; in [0, 1). Sokar et al. use
        0.1 (0.025 at DQN's own replay ratio), every 1000 steps: `redo@every:1000`.

    The moments of the rewritten entries are zeroed, and the step counters of the tensors they lie in. Dopamine's
    code keeps Adam's count (`as_released`): the first step on a zeroed moment is then (1 − β₁)/√(1 − β₂) = 3.2
    times the learning rate. With the count zeroed it is the learning rate, and the tensor's other entries, whose
    moments are kept, take a third of their step for a while.

    Units that the recent inputs do not pass through, another task's, are left alone.
    """

    def __init__(self, tau: float = 0.1, contract: Preset = "uniform") -> None:
        if not 0.0 <= tau < 1.0:
            raise ValueError(f"redo: tau must lie in [0, 1), got {tau}: scores are 1 on average")
        self.tau, self.preset = tau, contract

    def attach(self, learner: Learner) -> None:
        contract_for(self.name, self.preset, learner.algorithm)
        check_optimizer(learner.optimizer)
        if not learner.units:
            raise ValueError(f"redo: '{learner.name}' has no hidden units: name them (Learner.units)")
        for unit in learner.units:
            _shape(learner.module, unit, learner.wiring[unit])

    def contract(self, learner: Learner) -> dict[str, str]:
        words = "of dormant units: incoming re-drawn, bias and outgoing 0"
        own = {
            "uniform": {"optimizer state": "moments of the rewritten entries and step counters zeroed in place"},
            "as_released": {"optimizer state": "moments of the rewritten weights zeroed in place"},
        }[self.preset]
        return contract_for(self.name, self.preset, learner.algorithm).describe(words, learner, own)

    def apply(self, learner: Learner) -> list[str]:
        if (inputs := learner.probe()) is None:
            raise ValueError(f"redo needs recent inputs, and '{learner.name}' has none yet: schedule it later")
        scores = _scores(learner, inputs)
        dormant = {unit: mask for unit, score in scores.items() if (mask := score <= self.tau).any()}
        if not dormant:
            return []
        fresh = {**learner.initial, **learner.redraw()}
        masks = redo_(learner.module, dormant, learner.wiring, fresh)
        settle(learner, list(masks), contract_for(self.name, self.preset, learner.algorithm), masks)
        return list(masks)


@torch.no_grad()
def redo_(
    module: nn.Module, dormant: Mapping[str, Tensor], wiring: Mapping[str, Wiring], fresh: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Re-draw units of any module in place: incoming weights from `fresh`, their bias 0, outgoing weights 0.

    dormant: unit module → boolean mask of those to be re-drawn, (units,), or (members, units) in a stack.
    wiring: unit module → its incoming and outgoing layers. After convolutions, a Linear reads the channels one
        after the other, each with all its places (PyTorch's flattening of C, H, W).
    fresh: new parameters of the incoming layers by name, such as `redraw(module)` gives.
    Returns for each parameter written a boolean mask, broadcastable to it, of the entries written.
    Raises ValueError, changing nothing, where widths do not fit.
    """
    names: dict[Tensor, str] = {parameter: name for name, parameter in module.named_parameters()}
    masks: dict[str, Tensor] = {}

    def note(parameter: Tensor, mask: Tensor) -> None:
        name = names[parameter]
        masks[name] = masks[name] | mask if name in masks else mask

    for unit, units in dormant.items():
        if (shape := _shape(module, unit, wiring[unit])) != units.shape:
            has, needs = (" × ".join(map(str, sizes)) for sizes in (units.shape, shape))
            layers = ", ".join(wiring[unit].incoming)
            raise ValueError(f"redo: '{unit}' has {has} units, but {layers} has {needs} outputs")
    for unit, units in dormant.items():
        for layer in map(module.get_submodule, wiring[unit].incoming):
            weight = layer.get_parameter("weight")
            rows = _over_places(units.unsqueeze(-1), layer)
            weight.copy_(torch.where(rows, fresh[names[weight]].to(weight), weight))
            note(weight, rows)
            if layer.bias is not None:
                bias = layer.get_parameter("bias")
                bias.masked_fill_(units, 0)
                note(bias, units)
    # after all draws: a unit drawn anew must not hear the others, either
    for unit, units in dormant.items():
        for layer in map(module.get_submodule, wiring[unit].outgoing):
            weight = layer.get_parameter("weight")
            inputs = units.repeat_interleave(_sizes(layer)[-1] // units.shape[-1], dim=-1)
            columns = _over_places(inputs.unsqueeze(-2), layer)
            weight.masked_fill_(columns, 0)
            note(weight, columns)
    return masks


def _sizes(layer: nn.Module) -> tuple[int, ...]:
    """(outputs, inputs) of a layer, or (members, outputs, inputs) of a stacked one."""
    weight = layer.get_parameter("weight")
    return tuple(weight.shape if isinstance(layer, StackedLinear) else weight.shape[:2])


def _over_places(mask: Tensor, layer: nn.Module) -> Tensor:
    """A mask of matrix entries, broadcastable to a layer's weight: the same at all places of a kernel."""
    places = layer.get_parameter("weight").ndim - 2 if isinstance(layer, CONV) else 0
    return mask.view(*mask.shape, *[1] * places)


def _shape(module: nn.Module, unit: str, wires: Wiring) -> tuple[int, ...]:
    """The units there are, (units,) or (members, units), after checking that the layers around them fit."""
    incoming, outgoing = ([module.get_submodule(n) for n in names] for names in (wires.incoming, wires.outgoing))
    if not incoming or not outgoing:
        raise ValueError(f"redo: '{unit}' has no layer {'after' if incoming else 'before'} it: name it in the wiring")
    shapes = {_sizes(layer)[:-1] for layer in incoming}
    shape = shapes.pop()
    *members, width = shape
    if shapes:
        raise ValueError(f"redo: the layers before '{unit}' have different widths: {', '.join(wires.incoming)}")
    for name, layer in zip(wires.outgoing, outgoing, strict=True):
        if getattr(layer, "groups", 1) > 1:
            raise ValueError(f"redo: '{name}', which reads '{unit}', is a grouped convolution: redo does not know it")
        *readers, _, inputs = _sizes(layer)
        if members and readers != members:
            raise ValueError(f"redo: '{name}', which reads '{unit}', is no stack of {members[0]} members, as that is")
        flattened = isinstance(incoming[0], CONV) and isinstance(layer, LINEAR)
        if inputs % width if flattened else inputs != width:
            raise ValueError(f"redo: '{name}' has {inputs} inputs, which do not fit the {width} units of '{unit}'")
    return shape


@torch.no_grad()
def _scores(learner: Learner, inputs: Sequence[Any]) -> dict[str, Tensor]:
    """score_i of every unit, (units,) or (members, units), by unit module; in evaluation mode."""
    scores: dict[str, Tensor] = {}
    module, handles = learner.module, []

    def keep(unit: str, axis: int, rows: int) -> Callable[[nn.Module, Any, Tensor], None]:
        def hook(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
            activity = output.abs().movedim(axis, -1).flatten(rows, -2).float().mean(-2)
            scores[unit] = activity / (activity.mean(-1, keepdim=True) + 1e-9)

        return hook

    for unit in learner.units:
        convolution = isinstance(module.get_submodule(learner.wiring[unit].incoming[0]), CONV)
        hook = keep(unit, axis=1 if convolution else -1, rows=1 if learner.is_stacked(unit) else 0)
        handles.append(module.get_submodule(unit).register_forward_hook(hook))
    training = module.training
    try:
        module.eval()(*inputs)
    finally:
        module.train(training)
        for handle in handles:
            handle.remove()
    return scores
