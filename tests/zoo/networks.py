"""The networks of the zoo: how one is described, made and trained a little, and the list of all of them.

Each is a function that returns a module and the inputs of one forward pass, in one of the files of `kinds`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from supple.interventions import LastLoss, Learner, OtherMinibatch, learner_for
from supple.networks import evaluating
from tests.zoo.state import differences, take

Made = tuple[Any, ...]  # the module, and the inputs of a forward pass
SEED, STEPS, SILENT = 0, 2, -20.0
KINDS = ("plain", "shared", "normalised", "images", "sequences", "language", "agents")
BATCHED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm1d, nn.BatchNorm2d)


@dataclass(frozen=True)
class Kind:
    """A network of the zoo, and what is true of it.

    Attributes:
        name, about: What it is called, and in a few words what is special about it.
        new: Makes the module, and the inputs of one forward pass.
        forward: The name of the function that is the forward pass, or the function itself: (module, *inputs) → outputs.
        fresh: Whether the learner is given the function that makes the module anew, which `redraw` cannot do alone.
        hidden: Computes by hand, from the module and the inputs, the outputs of every call of an activation.
        tied: Pairs of names of one parameter.
        acts: Interventions that must act.
        coupled: Whether a unit's own statistics reach the others (LayerNorm, GroupNorm after or before the units).
        silent: Whether trained networks of this kind are given units that are silent on all inputs.
        tolerance: How far outputs may move by rounding.
        more: Further arguments of `learner_for`.
    """

    name: str
    about: str
    new: Callable[[], Made]
    forward: str | Callable[..., Any] = "forward"
    fresh: bool = False
    hidden: Callable[..., list[Tensor]] | None = None
    tied: tuple[tuple[str, str], ...] = ()
    acts: tuple[str, ...] = ()
    coupled: bool = False
    silent: bool = True
    tolerance: float = 1e-5
    more: Mapping[str, Any] | None = None

    def make(self) -> nn.Module:
        """Return a new module, from the present state of PyTorch's generator."""
        return self.new()[0]


@dataclass
class Subject:
    """A network of the zoo with its learner, trained for a few steps.

    `run` is one forward pass on the inputs; `losses` returns the loss of each row.
    """

    kind: Kind
    module: nn.Module
    inputs: tuple[Any, ...]
    learner: Learner
    run: Callable[[], Any]
    losses: Callable[[], Tensor]

    def outputs(self) -> list[Tensor]:
        """Return the outputs in evaluation mode, from the same draws each time; nothing of the subject changes."""
        with evaluating(self.module), torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.default_generator.manual_seed(SEED)
            return [t.detach().clone() for t in tensors(self.run())]


class Harmed(Exception):
    """A network was changed by what should only look at it."""


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


def forward_of(module: nn.Module, forward: str | Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """Return the outputs of a forward pass by the function of that name, or by the function itself."""
    if callable(forward):
        return forward(module, *inputs)
    return (module if forward == "forward" else getattr(module, forward))(*inputs)


def make(kind: Kind) -> Made:
    """Return the module and the inputs, the same at every call, without a draw from PyTorch's generator."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(SEED)
        return kind.new()


def subject(kind: Kind, optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.Adam, **more: Any) -> Subject:
    """Return a network of the zoo, trained for a few steps, with gradients, mixed modes and a marked learner.

    Raises what `learner_for` raises.
    """
    module, *inputs = make(kind)

    def run() -> Any:
        return forward_of(module, kind.forward, inputs)

    def losses() -> Tensor:
        return rows_of(run())

    def batches(count: int | None) -> Iterator[Tensor]:
        for _ in range(count or 1):
            with evaluating(module):
                found = losses()
            yield found

    trained = [p for p in module.parameters() if p.requires_grad and not nn.parameter.is_lazy(p)]
    steps = optimizer(trained, lr=1e-2) if trained else None
    given: dict[str, Any] = {**(kind.more or {}), **more}
    if kind.forward != "forward":
        given["forward"] = kind.forward
    if kind.fresh:
        given.setdefault("fresh", kind.make)
    given = {name: value for name, value in given.items() if value is not None}
    before = take(module, inputs=inputs, optimizer=steps)
    learner = learner_for(
        module, steps, probe=lambda: tuple(inputs), loss=lambda: losses().mean(),
        batches=batches, **given,
    )  # fmt: skip
    if found := differences(before, take(module, inputs=inputs, optimizer=steps)):
        raise Harmed(f"learner_for changed {len(found)} things: {', '.join(found[:3])}")
    learner.offer(OtherMinibatch(lambda: tuple(inputs)))
    learner.offer(LastLoss(lambda: losses().mean().detach()))
    learner.values = lambda outputs: tensors(outputs)[0]
    it = Subject(kind, module, tuple(inputs), learner, run, losses)
    train(it)
    return it


def train(it: Subject) -> None:
    """Train a subject a little, so that it has gradients, slots, modes and marks that could be harmed."""
    learner, module = it.learner, it.module
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(SEED)
        for step in range(STEPS):
            if step == 1:
                learner.mark()
            if learner.optimizer is None:
                break
            learner.optimizer.zero_grad()
            learner.loss().backward()
            learner.optimizer.step()
        if it.kind.silent:
            silence(module)
    last = list(module.modules())[-1]
    last.eval()  # a mode of its own, as frozen normalisations have


@torch.no_grad()
def silence(module: nn.Module) -> None:
    """Give the first unit of every trained layer such a bias that a ReLU after it is silent."""
    for part in module.modules():
        bias = getattr(part, "bias", None)
        if isinstance(part, BATCHED) and isinstance(bias, nn.Parameter) and bias.requires_grad and len(bias) > 3:
            bias[0] = SILENT
