"""The `Learner`: the view of a training run that interventions and metrics use, for agents and tracks alike."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from operator import is_not
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from supple.registry import describe_unknown, did_you_mean

from .activation_calls import parse_call_name
from .forward import Forward, runner
from .layers import Layer, Scope, find_stack
from .linear_pairs import Joint, LinearPair, find_declared_pairs, find_joints, pair_at
from .modules import STACKED
from .optimizers import trainer_of
from .parameters import check_values, names_by_parameter, pair_tensors, snapshot
from .recording import find_misread_units
from .redraw import is_constant
from .state_dicts import list_names
from .unchanged import keep_states, outputs_with
from .wiring import Wiring, layer_before, trace_wiring

Capability = TypeVar("Capability")
Probe = Callable[[], Sequence[Any] | None]  # returns inputs of the network, if there are any yet
Generators = tuple[torch.Generator, ...]
Batches = Callable[[int | None], Iterator[Tensor]]  # yields the losses of a number of batches, or of one pass


def no_batches(count: int | None) -> Iterator[Tensor]:
    """Raise ValueError. This is the default of `Learner.batches`."""
    raise ValueError("this learner offers no batches: give it some (Learner.batches)")


@dataclass
class Learner:
    """The interface between a training run and interventions or metrics, for agents and tracks alike.

    Everything after `redraw` is given by keyword, and may be set later.

    What is trained:

    Attributes:
        name: The run's name for the network, such as "agent", "actor" or "critic".
        module: The network that is trained.
        optimizer: The optimizer of the network, or None.
        initial: The parameters and buffers at step 0, by name. Copied from `module` if not given.
        followers: Networks of the same architecture that follow this one, such as target networks.
        forward: What runs the network on inputs: the name of a method, or a function of the module and the inputs.

    What the first axis of its parameters is, if they are those of several networks side by side, a stack:

    Attributes:
        seeds: The number of seeds that are trained together, each as if alone. 0: those of one run, without an axis.
        networks: The number of networks of one seed (the critics of SAC: 2). The first axis of all parameters has
            seeds × networks entries, those of a seed one after the other. It exists if there are seeds, or several
            networks, or if all layers are stacks (of one network).

    Its structure:

    Attributes:
        layers: The layers in forward order, with their roles.
        units: The calls whose outputs are post-activation units, in forward order, by name (see activation_calls.py).
        features: The qualified name of the module whose outputs the heads read. None: the last of `units`.
        wiring: The layers around each of `units` that does not share weights. Default: found by `trace_wiring`.
        unwired: Each other one of `units` → why it has no wiring, in words that complete "NAME …".

    Its data:

    Attributes:
        probe: Returns the positional arguments of one forward pass on recent inputs; None before there are any.
        last_inputs: Returns those of the last update's batch alone; None between updates. Default: `probe`.
        loss: Returns the training loss on a recent batch, (), differentiable; for a stack the sum over members.
        batches: Yields the differentiable losses of single samples, (batch,) or (members, batch), for a number of
            successive batches of the current data. None: one pass over these data. Raises ValueError if there are
            no data yet, or if a pass over them never ends.

    Random numbers:

    Attributes:
        generator: The source of every random draw that an intervention makes on this learner.
        generators: For a stack of seeds, one generator for each seed, which is used instead of `generator`. It draws
            for all networks of its seed what a run of this seed alone draws.
        activation_draws: The generators of randomised activations (see `set_generators`). None: PyTorch's own.
        redraw: Returns new initial parameters, by name. One that it leaves out keeps its constant of `initial`, or
            cannot be drawn (see `undrawn`).
        redraw_draws: The generators that `redraw` advances, besides the learner's own; for a stack of seeds, as many
            for each seed, those of a seed one after the other.

    Outputs, for metrics of change:

    Attributes:
        marked: The trained parameters at the last measurement, by name (see `mark`). None before the first one.
        answers: Returns the outputs for parameters by name and inputs. None: those of the forward pass.
        policy: Returns the policy of outputs and of parameters by name: a distribution for each row, or the
            actions, (rows,), of a deterministic policy.
        values: Returns the values among the outputs, (rows, …), or (members, rows, …) for a stack.

    Changes of its architecture, which interventions record (see `interventions.restructure`):

    Attributes:
        origins: The present name of a layer or of units → its name at the start, which users and logs use.
        changes: The interventions that changed the architecture, as texts, in order. Checkpoints contain them.
        renewed: The name of parameters or units → the number of `changes` when the name was given to new ones.

    What single interventions need:

    Attributes:
        capabilities: Objects of classes that these interventions define, such as `RetainLoss` (see `offers`).
    """

    name: str
    module: nn.Module
    optimizer: torch.optim.Optimizer | None
    layers: tuple[Layer, ...]
    units: tuple[str, ...]
    probe: Probe
    loss: Callable[[], Tensor]
    generator: torch.Generator
    redraw: Callable[[], Mapping[str, Tensor]]
    _: KW_ONLY
    initial: dict[str, Tensor] = field(default_factory=dict)
    followers: tuple[nn.Module, ...] = ()
    forward: Forward = "forward"

    seeds: int = 0
    networks: int = 1

    features: str | None = None
    wiring: Mapping[str, Wiring] = field(default_factory=dict)
    unwired: Mapping[str, str] = field(default_factory=dict)

    last_inputs: Probe | None = None
    batches: Batches = no_batches

    generators: Generators = ()
    activation_draws: Sequence[torch.Generator] | None = None
    redraw_draws: Generators = ()

    marked: dict[str, Tensor] | None = None
    answers: Callable[[Mapping[str, Tensor], Sequence[Any]], Any] | None = None
    policy: Callable[[Any, Mapping[str, Tensor]], Distribution | Tensor] | None = None
    values: Callable[[Any], Tensor] | None = None

    origins: dict[str, str] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    renewed: dict[str, int] = field(default_factory=dict)

    capabilities: tuple[object, ...] = ()

    _named: bool = field(default=False, init=False, repr=False)  # somebody named the wiring
    _joints: tuple[list[nn.Module], list[Joint]] | None = field(default=None, init=False, repr=False)
    _checked: bool = field(default=False, init=False, repr=False)  # the wiring has been checked on inputs
    _undrawn: list[str] | None = field(default=None, init=False, repr=False)
    _single: bool = field(default=False, init=False, repr=False)  # a stack of one network

    def __post_init__(self) -> None:
        check_values(self.module, self.name)
        self.optimizer = trainer_of(self.module, self.optimizer, self.name)
        self._check_stack()
        if not self.initial:
            self.initial = snapshot(self.module)
        for follower in self.followers:
            pair_tensors(follower, self.module)  # raises if they do not fit
        modules = dict(self.module.named_modules())
        places = [parse_call_name(unit).path for unit in self.units]
        features = () if self.features is None else (self.features,)
        wired = [name for wires in self.wiring.values() for name in (*wires.incoming, *wires.outgoing, *wires.norms)]
        for name in (*(layer.name for layer in self.layers), *places, *features, *wired):
            if name not in modules:
                raise ValueError(f"'{self.name}' has no module '{name}'{did_you_mean(name, modules)}")
        if strangers := [layer.name for layer in self.layers if modules[layer.name] is not layer.module]:
            raise ValueError(f"'{self.name}': layer '{strangers[0]}' is a module of another network")
        self._named = bool(self.wiring or self.unwired)
        if not self._named:
            self.wiring, self.unwired = trace_wiring(self.module, self.units, self.forward)
        for unit in self.units:
            if unit not in self.wiring and unit not in self.unwired:
                raise ValueError(f"'{self.name}': the wiring says nothing of '{unit}'{did_you_mean(unit, self.wiring)}")

    def _check_stack(self) -> None:
        """Raise ValueError if the parameters are not those of the networks that `seeds` and `networks` say."""
        found = find_stack(self.module, self.layers)
        self._single = found == 1
        if (count := self.members) == found:
            return
        if not count:
            raise ValueError(f"'{self.name}' is a stack of {found} networks: say what they are, seeds= or networks=")
        if self.layers or any(p.ndim == 0 or len(p) != count for p in self.module.parameters()):
            raise ValueError(
                f"'{self.name}' says that it is a stack of {count} networks (seeds={self.seeds}, "
                f"networks={self.networks}), but its layers or parameters are not"
            )

    @property
    def members(self) -> int:
        """The length of the first axis of all parameters, seeds × networks, or 0 if there is no such axis."""
        return max(self.seeds, 1) * self.networks if self.seeds or self.networks > 1 or self._single else 0

    def networks_of(self, seeds: Iterable[int]) -> list[int]:
        """Return the entries of the first axis that belong to these seeds of a stack of seeds, by their positions."""
        return [seed * self.networks + network for seed in seeds for network in range(self.networks)]

    def by_seed(self, values: Tensor) -> Tensor:
        """Return values of each network, (members, …), by seed: (seeds or 1, networks, …)."""
        return values.reshape(max(1, self.seeds), self.networks, *values.shape[1:])

    @property
    def source(self) -> torch.Generator | Generators:
        """The generator that interventions draw with, or in a stack of seeds one for each seed."""
        return self.generators or self.generator

    @property
    def draws(self) -> Generators:
        """The generators that interventions or a `redraw` may advance."""
        return (self.generator, *self.generators, *self.redraw_draws)

    @property
    def run(self) -> Callable[..., Any]:
        """The function of the inputs that runs the network."""
        return runner(self.module, self.forward)

    def offers(self, kind: type[Capability]) -> Capability | None:
        """Return the capability of this class, or None if the learner has none."""
        return next((each for each in self.capabilities if isinstance(each, kind)), None)

    def offer(self, capability: object) -> None:
        """Add a capability, such as `RetainLoss(loss)`, in place of one of the same class."""
        others = (each for each in self.capabilities if type(each) is not type(capability))
        self.capabilities = (*others, capability)

    def identity(self, name: str) -> str:
        """Return the key under which an intervention stores data about a parameter or units.

        It is the name. If a change of architecture has given this name to new parameters or units, the key is a
        different one, because stored data do not apply to them.
        """
        return f"{name}@{self.renewed[name]}" if name in self.renewed else name

    def trained(self) -> dict[str, nn.Parameter]:
        """Return the parameters that are trained, by name."""
        return {name: p for name, p in self.module.named_parameters() if p.requires_grad}

    def outputs(self, parameters: Mapping[str, Tensor], inputs: Sequence[Any]) -> Any:
        """Return the network's outputs for inputs, in evaluation mode, with other values for these tensors, by name.

        The module keeps its own values. The result is differentiable in the given ones.

        Args:
            parameters: Values of parameters, and of buffers, by name.
            inputs: The positional arguments of a forward pass.
        """
        if self.answers is not None:
            return self.answers(parameters, inputs)
        return outputs_with(self.module, parameters, inputs, self.run)

    def frozen(self) -> list[str]:
        """Return the names of the parameters that are not trained, which interventions keep.

        Parts that plasticity injection froze are not among them: what rewrites the whole network rewrites these too.
        """
        return [name for name, p in self.module.named_parameters() if not (p.requires_grad or name in self.renewed)]

    def writable(self) -> list[str]:
        """Return the names of all other parameters, which interventions may rewrite."""
        frozen = set(self.frozen())
        return [name for name, _ in self.module.named_parameters() if name not in frozen]

    def undrawn(self) -> list[str]:
        """Return the names of the trained parameters of which no new initial values are known; no generator moves."""
        if self._undrawn is None:
            with keep_states(self.draws):
                drawn = self.redraw()
            fixed = {name for name, value in self.initial.items() if is_constant(value)}
            self._undrawn = [name for name in self.trained() if name not in drawn and name not in fixed]
        return self._undrawn

    def require_optimizer(self, who: str) -> torch.optim.Optimizer:
        """Return the optimizer. Raises ValueError, which begins with `who`, if there is none."""
        if self.optimizer is None:
            raise ValueError(f"{who}: '{self.name}' has no optimizer")
        return self.optimizer

    def check_trained(self, who: str) -> None:
        """Raise ValueError if all parameters are frozen."""
        if not self.trained():
            raise ValueError(f"{who}: all parameters of '{self.name}' are frozen")

    def check_drawn(self, names: Iterable[str], who: str) -> None:
        """Raise ValueError if no new initial values are known of one of these parameters."""
        wanted = set(names)
        if missing := [name for name in self.undrawn() if name in wanted]:
            raise ValueError(
                f"{who}: no new values of {list_names(missing, 1)} can be drawn as at step 0: give a function that "
                f"makes the network anew (learner_for(…, fresh=…))"
            )

    def mark(self) -> None:
        """Store a copy of the present trained parameters, for metrics of change."""
        self.marked = {name: p.detach().clone() for name, p in self.trained().items()}

    def is_stacked(self, unit: str) -> bool:
        """Return whether these units are those of a stack, (members, n, …), each member's a layer of its own.

        This holds if the layer before them is stacked (`layer_before`).
        """
        return isinstance(self.layer_before(unit), STACKED)

    def layer_before(self, unit: str, module: nn.Module | None = None) -> nn.Module | None:
        """Return the layer of the module, or of this follower, whose outputs pass through these units.

        For units without a wiring, it is the one defined before them; None if there is none.
        """
        network, wires = module or self.module, self.wiring.get(unit)
        return network.get_submodule(wires.incoming[0]) if wires and wires.incoming else layer_before(network, unit)

    def check_wiring(self, inputs: Sequence[Any]) -> None:
        """Check the wiring that was found by tracing against the shapes of inputs, the first that there are."""
        if self._named or self._checked:
            return
        self._checked = True
        wrong = find_misread_units(self.module, self.wiring, inputs, self.run)
        self.wiring = {unit: wires for unit, wires in self.wiring.items() if unit not in wrong}
        self.unwired = {**self.unwired, **wrong}

    def linear_pairs(self) -> list[LinearPair]:
        """Return the network's present consecutive linear maps, declared by modules or found by tracing.

        The call is cheap: the network is traced again only if its modules have changed. See linear_pairs.py.
        """
        modules = list(self.module.modules())
        known = self._joints
        if known is None or len(known[0]) != len(modules) or any(map(is_not, known[0], modules)):
            wiring = self.wiring if self._named else None
            known = self._joints = modules, list(find_joints(self.module, wiring, self.forward))
        traced = [pair_at(self.module, joint) for joint in known[1]]
        return [*find_declared_pairs(self.module), *(pair for pair in traced if pair)]

    def select(self, scope: Scope) -> list[Layer]:
        """Return the layers in a scope.

        A scope is `all`, a role (`encoder`, `hidden`, `head`), a kind (`linear`, `conv`), a part that this network has
        (`query`, `key`, … of a transformer) or several of them. A layer is in the scope if any of the words applies to
        it.

        Raises:
            ValueError: A word is unknown, or no layer is in the scope.
        """
        words = [scope] if isinstance(scope, str) else list(scope)
        known = ["all", "encoder", "hidden", "head", "linear", "conv"]
        known += [part for part in dict.fromkeys(layer.part for layer in self.layers) if part and part not in known]
        for word in words:
            if word not in known:
                raise ValueError(describe_unknown("scope", word, known))
        chosen = [layer for layer in self.layers if not layer.words().isdisjoint(words)]
        if not chosen:
            raise ValueError(f"scope '{'+'.join(words)}' names no layer of '{self.name}'")
        return chosen

    def select_stored(self, scope: Scope) -> list[Layer]:
        """Return the layers in a scope. Raises ValueError as `select`, and if the weight of one cannot be rewritten."""
        layers = self.select(scope)
        for layer in layers:
            _ = layer.weight  # raises
        return layers

    def weight_of(self, layer: Layer) -> str:
        """Return the qualified name of a layer's weight in `named_parameters`; a tied one may be another module's."""
        return next(name for name, parameter in self.module.named_parameters() if parameter is layer.weight)

    def parameters_of(self, layers: Sequence[Layer]) -> list[str]:
        """Return the names of these layers' parameters that are not frozen; a tied one once, under its first name."""
        names = names_by_parameter(self.module)
        frozen = set(self.frozen())
        unique = dict.fromkeys(names[p] for layer in layers for p in layer.module.parameters())
        return [name for name in unique if name not in frozen]
