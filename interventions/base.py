"""The contract of an intervention: a name, parameters, a reset contract and six moments, each optional."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from torch import Tensor, nn

from ..networks.layers import Scope
from ..networks.learner import Learner
from ..networks.parameters import restore_
from ..registry import Call, Registry, bind, parse_call
from .contract import Preset, check_optimizer, contract_for, settle

# Where the authors' code does something else than their paper says, and the choice is offered.
Variant = Literal["paper", "as_released"]


class Intervention:
    """Something that is done to a learner. A subclass overrides those of the six moments that it needs.

    attach(learner)        at the start of a run (or of a fork)
    penalty(learner)       a differentiable term added to every training loss
    before_update(learner) before every optimizer step, when the gradients are there (`.grad`)
    after_update(learner)  after every optimizer step
    finish_task(learner)   at the end of every task, while the learner's data are still that task's
    apply(learner)         when the schedule fires; returns the names of the parameters it wrote

    One that changes the architecture overrides `restructure` besides.
    """

    name: str = ""
    params: Mapping[str, Any]  # as given by the user, for logs
    at_start: bool = False  # where no schedule is given, it is applied once, at the start of the run

    def concerns(self, learner: Learner) -> bool:
        """Return whether it has a place in this learner. An agent's other learners are left alone; where there
        is a place in none, `attach` refuses with the reason."""
        return True

    def attach(self, learner: Learner) -> None:
        """Look at the learner before training; refuse it here, not in the middle of a run."""

    def penalty(self, learner: Learner) -> Tensor:
        raise AttributeError(f"{self.name} adds no loss term")

    def before_update(self, learner: Learner) -> None:
        raise AttributeError(f"{self.name} does nothing before an update")

    def after_update(self, learner: Learner) -> None:
        raise AttributeError(f"{self.name} does nothing after an update")

    def finish_task(self, learner: Learner) -> None:
        raise AttributeError(f"{self.name} does nothing at the end of a task")

    def apply(self, learner: Learner) -> list[str]:
        raise AttributeError(f"{self.name} is not applied by a schedule")

    def restructure(self, learner: Learner) -> None:
        """Do the part of `apply` that changes the architecture or the optimizer, with arbitrary values in what is new,
        and append its text to `learner.changes`. Whatever was recorded of the network, such as a CUDA graph, is then
        stale."""

    def contract(self, learner: Learner) -> dict[str, str]:
        """Return what it resets, in words, for reports."""
        return {}

    def numbers(self, learner: Learner) -> dict[str, Tensor]:
        """Return what it counts or measures of its own doing on this learner so far, for logs, by name: a number,
        or in a stack one for each member, (members,)."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return all that must survive a checkpoint: tensors, numbers, strings, lists and dicts of them."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` gave."""

    def has(self, moment: str) -> bool:
        """Return whether this intervention overrides a method: one of the six moments, or `restructure`."""
        return getattr(type(self), moment) is not getattr(Intervention, moment)

    def __str__(self) -> str:
        return str(Call(self.name, self.params))


class Reinitialization(Intervention, ABC):
    """An intervention that rewrites weights at one moment, then settles its reset contract."""

    toward: str = "initial"  # "fresh": `rewrite` is given a new draw instead of the step-0 parameters

    def __init__(self, scope: Scope, contract: Preset) -> None:
        self.scope = scope
        self.preset: Preset = contract

    def scope_on(self, learner: Learner) -> Scope:
        """Return the intervention's scope on this learner, before a released contract overrides it."""
        return self.scope

    @abstractmethod
    def rewrite(self, module: nn.Module, learner: Learner, start: Mapping[str, Tensor], scope: Scope) -> list[str]:
        """Rewrite `module` (the learner's own, or a follower) in place within `scope`; return the names written.

        start: the parameters that a new run would begin with, by name (see `toward`)."""

    def attach(self, learner: Learner) -> None:
        if not self.scope:
            raise ValueError(f"{self.name}: an empty scope names no layer: leave it out for all")
        contract = contract_for(self.name, self.preset, learner.algorithm)
        if contract.weights and self.scope not in ("all", contract.weights):
            raise ValueError(
                f"{self.name}: contract={self.preset} has the scope {contract.weights} here, not {_words(self.scope)}"
            )
        for scope in (contract.weights or self.scope_on(learner), contract.restore):
            if scope:
                learner.select(scope)
        if contract.optimizer != "kept":
            check_optimizer(learner.optimizer)

    def contract(self, learner: Learner) -> dict[str, str]:
        return contract_for(self.name, self.preset, learner.algorithm).describe(_words(self.scope_on(learner)), learner)

    def apply(self, learner: Learner) -> list[str]:
        contract = contract_for(self.name, self.preset, learner.algorithm)
        modules = [learner.module, *(learner.followers if contract.target == "same" else ())]
        start: Mapping[str, Tensor] = learner.initial
        if self.toward == "fresh":
            start = {**start, **learner.redraw()}
        sources = learner.generators or (learner.generator,)
        draws = [source.get_state() for source in sources]
        for module in modules:
            for source, state in zip(sources, draws, strict=True):
                source.set_state(state)  # the same operation on a follower has the same noise
            written = self.rewrite(module, learner, start, contract.weights or self.scope_on(learner))
            if contract.restore:
                names = learner.parameters_of(learner.select(contract.restore))
                restore_(module, {name: learner.initial[name] for name in names})
                written = [*written, *names]
        settle(learner, written, contract)
        return written


def _words(scope: Scope) -> str:
    return scope if isinstance(scope, str) else " + ".join(scope)


interventions: Registry[type[Intervention]] = Registry("intervention", groups=("supple.interventions",))


def make(name: str, **params: Any) -> Intervention:
    """Return the intervention of that name: `make("fire", steps=10)`.

    Raises ValueError, in one line, for an unknown name (with near names) or a wrong parameter.
    """
    factory = interventions.get(name)
    intervention = factory(**bind(factory, params, name))
    intervention.name, intervention.params = name, dict(params)
    return intervention


def restructure(learner: Learner, changes: Sequence[str]) -> None:
    """Give a learner the architecture that these interventions left behind (`Learner.changes` of a checkpoint), so
    that the checkpoint's values fit: the same parameters by name, and in the same order in the optimizer.

    Call it on a freshly built learner before values are loaded; what it has of the changes already is not
    repeated. Raises ValueError if it was changed in another way before.
    """
    done = len(learner.changes)
    if list(changes[:done]) != learner.changes:
        had, needed = ", ".join(learner.changes), ", ".join(changes) or "none"
        raise ValueError(f"the architecture of '{learner.name}' was changed by {had}; the checkpoint needs {needed}")
    for text in changes[done:]:
        call = parse_call(text)
        make(call.name, **call.params).restructure(learner)
