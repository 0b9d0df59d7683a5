"""The networks of the zoo: how one is described, made and trained a little, and the list of all of them.

Each is a function that returns a module and the inputs of one forward pass, in one of the files of `kinds`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from supple.interventions import LastLoss, Learner, OtherMinibatch, learner_for
from supple.networks import evaluating
from tests.zoo.state import State, differences, take

Made = tuple[Any, ...]  # the module, and the inputs of a forward pass
SEED, SILENT = 0, -20.0
KINDS = ("plain", "shared", "normalised", "images", "sequences", "language", "agents")
BATCHED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm1d, nn.BatchNorm2d)


class Calls(nn.Module):
    """A network written as one function of itself, with its parts a, b, act, …, and of its input.

    Whoever calls `len` in it writes a forward of their own: PyTorch's tracing knows it from the module's file only.
    """

    def __init__(self, function: Callable[[Any, Any], Any] | None, **parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x: Any) -> Any:
        return self.function(self, x)


@dataclass(frozen=True, eq=False)
class Kind:
    """A network of the zoo, and what is true of it.

    Attributes:
        name, about: What it is called, and in a few words what is special about it.
        new: Makes the module, and the inputs of one forward pass.
        forward: The function that is the forward pass, if the module has none: (module, *inputs) → outputs.
        fresh: Whether the learner is given the function that makes the module anew, which `redraw` cannot do alone.
        coupled: Whether a unit's own statistics reach the others (LayerNorm, GroupNorm after or before the units).
        silent: Whether trained networks of this kind are given units that are silent on all inputs.
        tolerance: How far outputs may move by rounding.
        more: Further arguments of `learner_for`.
    """

    name: str
    about: str
    new: Callable[[], Made]
    forward: Callable[..., Any] | None = None
    fresh: bool = False
    coupled: bool = False
    silent: bool = True
    tolerance: float = 1e-5
    more: Mapping[str, Any] = field(default_factory=dict)

    def make(self) -> nn.Module:
        """Return a new module, from the present state of PyTorch's generator."""
        return self.new()[0]


@dataclass
class Subject:
    """A network of the zoo with its learner, trained for a few steps.

    `run` is one forward pass on the inputs.
    """

    kind: Kind
    module: nn.Module
    inputs: tuple[Any, ...]
    learner: Learner
    run: Callable[[], Any]

    def outputs(self) -> list[Tensor]:
        """Return the outputs in evaluation mode, from the same draws each time; nothing of the subject changes."""
        with evaluating(self.module), torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.default_generator.manual_seed(SEED)
            return [t.detach().clone() for t in tensors(self.run())]

    def state(self) -> State:
        """Return all that may be harmed."""
        return take(self.module, inputs=self.inputs, optimizer=self.learner.optimizer, learner=self.learner)


class Broken(Exception):
    """A promise is broken."""


ZOO: dict[str, Kind] = {}


def network(about: str, **facts: Any) -> Callable[[Callable[[], Made]], Callable[[], Made]]:
    """Add a function that makes a network to the zoo, under its name."""

    def add(new: Callable[[], Made]) -> Callable[[], Made]:
        assert new.__name__ not in ZOO, f"two networks are called {new.__name__}"
        ZOO[new.__name__] = Kind(new.__name__, about, new, **facts)
        return new

    return add


def zoo() -> dict[str, Kind]:
    """Return all networks, by name."""
    for kind in KINDS:
        import_module(f"tests.zoo.kinds.{kind}")
    return ZOO


def tensors(outputs: Any) -> list[Tensor]:
    """Return the tensors of real numbers among outputs, however they are nested."""
    if isinstance(outputs, Tensor):
        return [outputs] if outputs.is_floating_point() else []
    if isinstance(outputs, Mapping):
        outputs = list(outputs.values())
    if isinstance(outputs, Sequence) and not isinstance(outputs, str):
        return [t for part in outputs for t in tensors(part)]
    return []


def rows_of(outputs: Any) -> Tensor:
    """Return a loss for each row of the outputs, (rows,), which has a gradient wherever one can have one."""
    found = [t for t in tensors(outputs) if t.ndim and t.requires_grad]
    found = found or [t for t in tensors(outputs) if t.ndim]
    return sum((t.float().flatten(1) - 0.5).square().mean(1) if t.ndim > 1 else t.float().square() for t in found)


def make(kind: Kind) -> Made:
    """Return the module and the inputs, the same at every call, without a draw from PyTorch's generator."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(SEED)
        return kind.new()


def subject(kind: Kind, **more: Any) -> Subject:
    """Return a network of the zoo, trained for a few steps, with gradients, mixed modes and a marked learner.

    Raises what `learner_for` raises.
    """
    module, *inputs = make(kind)

    def run() -> Any:
        return module(*inputs) if kind.forward is None else kind.forward(module, *inputs)

    def batches(count: int | None) -> Iterator[Tensor]:
        for _ in range(count or 1):
            with evaluating(module):
                found = rows_of(run())
            yield found

    steps = torch.optim.Adam([p for p in module.parameters() if p.requires_grad], lr=1e-2)
    given = {"fresh": kind.make if kind.fresh else None, "forward": kind.forward, **kind.more, **more}
    given = {name: value for name, value in given.items() if value is not None}
    before = take(module, inputs=inputs, optimizer=steps)
    learner = learner_for(
        module, steps, probe=lambda: tuple(inputs), loss=lambda: rows_of(run()).mean(), batches=batches, **given
    )
    if found := differences(before, take(module, inputs=inputs, optimizer=steps)):
        raise Broken(f"learner_for changed {len(found)} things: {', '.join(found[:3])}")
    learner.offer(OtherMinibatch(lambda: tuple(inputs)))
    learner.offer(LastLoss(lambda: rows_of(run()).mean().detach()))
    learner.values = lambda outputs: tensors(outputs)[0]
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(SEED)
        for _ in range(2):
            learner.mark()
            learn(learner)
    if kind.silent:
        silence(module)
    list(module.modules())[-1].eval()  # a mode of its own, as frozen normalisations have
    return Subject(kind, module, tuple(inputs), learner, run)


def learn(learner: Learner) -> None:
    """Make one step of the optimizer."""
    assert learner.optimizer is not None
    learner.optimizer.zero_grad()
    learner.loss().backward()
    learner.optimizer.step()


@torch.no_grad()
def silence(module: nn.Module) -> None:
    """Give the first unit of every trained layer such a bias that a ReLU after it is silent."""
    for part in module.modules():
        bias = getattr(part, "bias", None)
        if isinstance(part, BATCHED) and isinstance(bias, nn.Parameter) and bias.requires_grad and len(bias) > 3:
            bias[0] = SILENT
