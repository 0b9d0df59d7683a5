"""The `Learner`: the view of a training run that interventions and metrics use, for agents and tracks alike."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_not
from typing import Any

import torch
from torch import Tensor, nn

from ..registry import did_you_mean
from .capabilities import Compared, MoreData, Restructured, Specifics, no_batches
from .layers import Layer, Scope, chain
from .linear_pairs import Joint, LinearPair, declared_pairs, find_joints, pair_at
from .parameters import snapshot
from .recording import outputs_with
from .redraw import redraw
from .wiring import CONV, LINEAR, STACKED, Wiring, layer_before, trace_wiring, unit_names


def _is_part(word: str) -> Callable[[Layer], bool]:
    return lambda layer: layer.part == word


@dataclass
class Learner(MoreData, Specifics, Compared, Restructured):
    """The interface between a training run and interventions or metrics, for agents and tracks alike.

    Optional capabilities, needed by few interventions, are in its bases (capabilities.py).

    Attributes
    ----------
    name: the run's name for this network, such as "agent", "actor" or "critic".
    module: the network that is trained.
    optimizer: its optimizer, or None.
    layers: its layers in forward order, with their roles.
    units: qualified names of the modules whose outputs are post-activation units, in forward order.
    probe: returns the positional arguments of one forward pass on recent inputs; None before there are any.
    loss: returns the training loss on a recent batch, differentiable in the parameters; for a stack the sum of the
        members' losses, which gives every member its own gradient.
    generator: the source of every random draw that an intervention makes on this learner.
    redraw: returns a new draw of the initial parameters, by name; parameters that it leaves out are as in `initial`.
    initial: the parameters at step 0, by name (copied from `module` if not given).
    followers: networks that follow this one, such as target networks; same architecture.
    generators: for a stack of seeds, one for each member, for draws that do not depend on other members
    (`normal_like`). features: qualified name of the module whose outputs the heads read, if it is not the last of
    `units`. wiring: the layers around each of `units` that does not share weights (see wiring.py); found by
    `trace_wiring` by
        default.
    unwired: each other one of `units` → why it has no wiring, as the rest of a sentence that begins with its name.
    """

    name: str
    module: nn.Module
    optimizer: torch.optim.Optimizer | None
    layers: tuple[Layer, ...]
    units: tuple[str, ...]
    probe: Callable[[], Sequence[Any] | None]
    loss: Callable[[], Tensor]
    generator: torch.Generator
    redraw: Callable[[], Mapping[str, Tensor]]
    initial: dict[str, Tensor] = field(default_factory=dict)
    followers: tuple[nn.Module, ...] = ()
    generators: tuple[torch.Generator, ...] = ()
    features: str | None = None
    wiring: Mapping[str, Wiring] = field(default_factory=dict)
    unwired: Mapping[str, str] = field(default_factory=dict)
    _named: bool = field(default=False, init=False, repr=False)  # somebody named the wiring
    _joints: tuple[list[nn.Module], list[Joint], list[str]] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.initial:
            self.initial = snapshot(self.module)
        modules = dict(self.module.named_modules())
        parts = [name for name in (self.injectable, self.features) if name is not None]
        for name in (*(layer.name for layer in self.layers), *self.units, *parts):
            if name not in modules:
                raise ValueError(f"'{self.name}' has no module '{name}'{did_you_mean(name, modules)}")
        if strangers := [layer.name for layer in self.layers if modules[layer.name] is not layer.module]:
            raise ValueError(f"'{self.name}': layer '{strangers[0]}' is a module of another network")
        self._named = bool(self.wiring or self.unwired)
        if not self._named:
            self.wiring, self.unwired = trace_wiring(self.module, self.units)
        for unit in self.units:
            if unit not in self.wiring and unit not in self.unwired:
                raise ValueError(f"'{self.name}': the wiring says nothing of '{unit}'{did_you_mean(unit, self.wiring)}")
            wires = self.wiring.get(unit, Wiring((), ()))
            for name in (*wires.incoming, *wires.outgoing, *wires.norms):
                if name not in modules:
                    hint = did_you_mean(name, modules)
                    raise ValueError(f"'{self.name}': the wiring of '{unit}' names no module: '{name}'{hint}")

    def trained(self) -> dict[str, nn.Parameter]:
        """Return the parameters that are trained, by name."""
        return {name: p for name, p in self.module.named_parameters() if p.requires_grad}

    def outputs(self, parameters: Mapping[str, Tensor], inputs: Sequence[Any]) -> Any:
        """Return the network's outputs for inputs, in evaluation mode, with other values for these parameters, by name.

        The module keeps its own values. The result is differentiable in the given values.
        """
        if self.answers is not None:
            return self.answers(parameters, inputs)
        return outputs_with(self.module, parameters, inputs)

    def mark(self) -> None:
        """Store a copy of the present trained parameters, for metrics of change."""
        self.marked = {name: p.detach().clone() for name, p in self.trained().items()}

    def is_stacked(self, unit: str) -> bool:
        """Return whether these units are those of a stack, (members, n, …), each member's a layer of its own.

        This holds if the layer before them is stacked. For units without a wiring, it is the one defined before them.
        """
        if unit in self.wiring:
            before = self.wiring[unit].incoming[:1]
            return any(isinstance(self.module.get_submodule(name), STACKED) for name in before)
        return isinstance(layer_before(self.module, unit), STACKED)

    def linear_pairs(self) -> list[LinearPair]:
        """Return the network's present consecutive linear maps, declared by modules or found by tracing.

        The call is cheap: the network is traced again only if its modules have changed. See linear_pairs.py.
        """
        return self.paired()[0]

    def paired(self) -> tuple[list[LinearPair], list[str]]:
        """Return `linear_pairs`, and the reasons why other layers begin none, a sentence each."""
        modules = list(self.module.modules())
        known = self._joints
        if known is None or len(known[0]) != len(modules) or any(map(is_not, known[0], modules)):
            known = self._joints = modules, *find_joints(self.module, self.wiring if self._named else None)
        _, joints, reasons = known
        found = [pair_at(self.module, joint) for joint in joints]
        pairs = [*declared_pairs(self.module), *(pair for pair in found if isinstance(pair, LinearPair))]
        reasons = [*(reason for reason in found if isinstance(reason, str)), *reasons]  # the most telling first
        if self._named:
            reasons += [f"'{unit}' {why}" for unit, why in self.unwired.items()]
        return pairs, reasons

    def select(self, scope: Scope) -> list[Layer]:
        """Return the layers in a scope.

        A scope is `all`, a role (`encoder`, `hidden`, `head`), a kind (`linear`, `conv`), a part that this network has
        (`query`, `key`, … of a transformer) or several of them. A layer is in the scope if any of the words applies to
        it.

        Raises:
            ValueError: A word is unknown, or no layer is in the scope.
        """
        words = [scope] if isinstance(scope, str) else list(scope)
        fits: dict[str, Callable[[Layer], bool]] = {
            "all": lambda layer: True,
            "encoder": lambda layer: layer.role == "encoder",
            "hidden": lambda layer: layer.role == "hidden",
            "head": lambda layer: layer.role == "head",
            "linear": lambda layer: isinstance(layer.module, LINEAR) or layer.transposed,
            "conv": lambda layer: isinstance(layer.module, CONV),
        }
        fits |= {layer.part: _is_part(layer.part) for layer in self.layers if layer.part}
        for word in words:
            if word not in fits:
                raise ValueError(f"unknown scope {word!r}{did_you_mean(word, fits)} (known: {', '.join(fits)})")
        chosen = [layer for layer in self.layers if any(fits[word](layer) for word in words)]
        if not chosen:
            raise ValueError(f"scope '{'+'.join(words)}' names no layer of '{self.name}'")
        return chosen

    def weight_of(self, layer: Layer) -> str:
        """Return the qualified name of a layer's weight in `named_parameters`; a tied one may be another module's."""
        return next(name for name, parameter in self.module.named_parameters() if parameter is layer.weight)

    def parameters_of(self, layers: Sequence[Layer]) -> list[str]:
        """Return the qualified names of the parameters of these layers; a tied one once, as in `named_parameters`."""
        names: dict[Tensor, str] = {parameter: name for name, parameter in self.module.named_parameters()}
        return list(dict.fromkeys(names[p] for layer in layers for p in layer.module.parameters()))


def learner_for(
    module: nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    probe: Callable[[], Sequence[Any] | None] | None = None,
    loss: Callable[[], Tensor] | None = None,
    batches: Callable[[int | None], Iterator[Tensor]] = no_batches,
    layers: tuple[Layer, ...] | None = None,
    units: tuple[str, ...] | None = None,
    followers: tuple[nn.Module, ...] = (),
    wiring: Mapping[str, Wiring] | None = None,
    injectable: str | None = None,
    name: str = "model",
    seed: int = 0,
) -> Learner:
    """Return a `Learner` for any module, for your own training loop; call it before the first update.

        learner = learner_for(model, optimizer, probe=lambda: (x,), loss=lambda: criterion(model(x), y))
        make("fire").apply(learner)

    Args:
        probe, loss: As in `Learner`, both or neither. Without them only weights can be measured.
        batches: As in `Learner`, for interventions that use more than one batch (dash, ewc).
        layers: By default `chain(module)`, which is right for a plain feed-forward network. Give the roles yourself if
            heads branch off.
        units: By default `unit_names(module)`. Nonlinearities that are functions (F.relu) are not found: replace them
            by modules, or name the blocks whose outputs count as units. If a module is used twice in one pass, its last
            use counts.
        wiring: By default `trace_wiring`. Give it yourself, for interventions on single units, if tracing fails.
        injectable: The submodule that plasticity injection duplicates, such as "mlp" with the last layers in it.
        seed: Seed of the generator of new draws and noise.

    Raises:
        ValueError: The module has no layers, or no units although probe and loss are given, or `units` names a layer.
    """
    layers = chain(module) if layers is None else layers
    units = unit_names(module) if units is None else units
    kind = type(module).__name__
    if not layers:
        raise ValueError(f"{kind} has no Linear or Conv layer to intervene in: name them with layers=")
    if (probe is None) != (loss is None):
        raise ValueError("probe and loss go together: the inputs to measure on, and the loss on them")
    if probe and not units:
        raise ValueError(
            f"{kind} has no activation module between its layers, in the order of definition: replace functions such "
            f"as F.relu by one module for each layer, such as nn.ReLU(), or name the blocks around them with units="
        )
    modules = dict(module.named_modules())
    for unit in units:
        if isinstance(part := modules.get(unit), (*LINEAR, *CONV)):
            raise ValueError(
                f"units=: '{unit}' is a {type(part).__name__}, whose outputs are not those of hidden units: name the "
                f"activation module after it"
            )
    generator = torch.Generator().manual_seed(seed)
    # an injection changes the module, and a fresh draw is one of what it was
    plain = module if injectable is None else copy.deepcopy(module)
    return Learner(
        name,
        module,
        optimizer,
        layers,
        units,
        probe=probe or (lambda: None),
        loss=loss or (lambda: torch.zeros(())),
        generator=generator,
        redraw=lambda: redraw(plain, generator),
        batches=batches,
        followers=followers,
        wiring=wiring or {},
        injectable=injectable,
    )
