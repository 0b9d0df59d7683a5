"""The base class of interventions: a name, parameters, a reset contract and seven optional moments."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from torch import Tensor, nn

from supple.networks import Learner, Scope, restore_
from supple.registry import Call, Registry, bind, naming, parse_call

from .contract import Preset, check_contract, contract_for, settle

# For interventions whose released code differs from the paper.
Variant = Literal["paper", "as_released"]


MOMENTS = ("before_loss", "penalty", "before_update", "after_update", "finish_task", "apply")  # besides `attach`


class Intervention:
    """A change to a learner. A subclass overrides the moments that it needs.

    attach(learner)        at the start of a run or of a fork
    before_loss(learner)   before every training loss, to draw or read what `penalty` needs
    penalty(learner)       returns a differentiable term that is added to every training loss
    before_update(learner) before every optimizer step, when `.grad` holds the gradients
    after_update(learner)  after every optimizer step
    finish_task(learner)   at the end of every task, while the learner's data are still those of the task
    apply(learner)         when the schedule fires; returns the names of the parameters it wrote

    An intervention that changes the architecture also overrides `restructure`.
    """

    name: str = ""
    params: Mapping[str, Any] = MappingProxyType({})  # as given by the user, for logs
    together: str = ""  # what it does that the seeds of a stack share, so that it cannot act on some of them alone
    at_start: bool = False  # without a schedule, it is applied once at the start of the run
    saved: dict[str, Any]  # what checkpoints contain; a subclass with such a state sets it in its __init__
    traceable: bool = True  # whether torch.compile can trace `penalty`: False if it draws numbers itself

    def concerns(self, learner: Learner) -> bool:
        """Return whether the intervention can act on this learner. Other learners of the agent are left unchanged.

        If it can act on none of them, `attach` raises an error with the reason.
        """
        return True

    def attach(self, learner: Learner) -> None:
        """Check the learner before training, so that an unsuitable learner is refused before the run begins."""

    def before_loss(self, learner: Learner) -> None:
        raise AttributeError(f"{self.name} does nothing before a loss")

    def penalty(self, learner: Learner) -> Tensor:
        """Return a differentiable loss term, ()."""
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
        """Change the architecture or the optimizer as `apply` does, and add this intervention to `learner.changes`.

        New parameters have arbitrary values afterwards. Recordings of the network, such as CUDA graphs, become invalid.
        """

    def contract(self, learner: Learner) -> dict[str, str]:
        """Return what the intervention resets, in words, for reports."""
        return {}

    def numbers(self, learner: Learner) -> dict[str, Tensor]:
        """Return counts or measurements of the intervention's own work on this learner so far, for logs.

        Each value is a number or, for a stack, one number for each member, (members,), or for each seed, (seeds,).
        """
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return the state to save in a checkpoint, `saved`: tensors, numbers, strings, and lists and dicts of them.

        What `apply` changes must be tensors. In a stack their first axis is that of the members or of the seeds, and
        they exist before, because a condition may hold for some seeds only.
        """
        return getattr(self, "saved", {})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state that `state_dict` returned, which is copied, since tensors are then written in place."""
        self.saved = copy.deepcopy(state)

    def has(self, moment: str) -> bool:
        """Return whether this intervention overrides a method: a moment, `concerns` or `restructure`."""
        return getattr(type(self), moment) is not getattr(Intervention, moment)

    def __str__(self) -> str:
        return str(Call(self.name, self.params))


class Reinitialization(Intervention, ABC):
    """An intervention that rewrites weights when it is applied, and then carries out its reset contract."""

    toward: str = "initial"  # "fresh": `rewrite` is given a new draw instead of the step-0 parameters

    def __init__(self, scope: Scope, contract: Preset) -> None:
        self.scope, self.preset = scope, contract

    def scope_on(self, learner: Learner) -> Scope:
        """Return the intervention's scope on this learner, before an `as_released` contract overrides it."""
        return self.scope

    @abstractmethod
    def rewrite(self, module: nn.Module, learner: Learner, start: Mapping[str, Tensor], scope: Scope) -> list[str]:
        """Rewrite `module` in place within `scope`, and return the names of the parameters written.

        Args:
            module: The learner's own network or one of its followers.
            learner: The learner.
            start: The parameters, (…), that a new run would begin with, by name (see `toward`).
            scope: The layers to rewrite.
        """

    def attach(self, learner: Learner) -> None:
        if not self.scope:
            raise ValueError(f"{self.name}: scope is empty and selects no layer; leave it out to select all layers")
        contract = contract_for(self.name, self.preset, learner)
        if contract.weights and self.scope not in ("all", contract.weights):
            problem = f"requires scope={contract.weights} here, got {scope_text(self.scope)}"
            raise ValueError(f"{self.name}: contract={self.preset} {problem}")
        for scope in (contract.weights or self.scope_on(learner), contract.restore):
            if scope and scope != "all":  # which may mean parameters that belong to no layer
                learner.select(scope)
        check_contract(learner, contract)

    def contract(self, learner: Learner) -> dict[str, str]:
        return contract_for(self.name, self.preset, learner).describe(scope_text(self.scope_on(learner)), learner)

    def apply(self, learner: Learner) -> list[str]:
        contract = contract_for(self.name, self.preset, learner)
        check_contract(learner, contract)  # before the weights are written
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


def scope_text(scope: Scope) -> str:
    """Return a scope as reports and errors name it."""
    return scope if isinstance(scope, str) else " + ".join(scope)


def check_within(who: str, **values: tuple[float | None, str]) -> None:
    """Raise ValueError unless each value lies in its interval, such as "[0, 1)" or "(0, ∞)". None is not checked."""
    for name, (value, interval) in values.items():
        low, high = (float(end.replace("∞", "inf")) for end in interval[1:-1].split(","))
        ends = (low,) * (interval[0] == "[") + (high,) * (interval[-1] == "]")
        if not (value is None or low < value < high or value in ends):
            raise ValueError(f"{who}: {name} must lie in {interval}, got {value}")


interventions: Registry[type[Intervention]] = Registry("intervention", groups=("supple.interventions",))


def make(name: str, **params: Any) -> Intervention:
    """Return the intervention of that name.

    Raises:
        ValueError: The name is unknown or a parameter is wrong. The message is one line and suggests similar names.

    Examples:
        >>> from supple.interventions import make
        >>> str(make("fire", steps=5))
        'fire(steps=5)'
        >>> make("snp", lam=2.0)
        Traceback (most recent call last):
        ValueError: snp: lam must lie in [0, 1], got 2.0
    """
    factory = interventions.get(name)
    with naming(f"making {name}", factory):
        intervention = factory(**bind(factory, params, name))
    intervention.name, intervention.params = name, dict(params)
    if not any(map(intervention.has, ("attach", *MOMENTS))):
        raise ValueError(f"{name} overrides none of attach, {', '.join(MOMENTS)}: it would do nothing")
    return intervention


def restructure(learner: Learner, changes: Sequence[str]) -> None:
    """Apply the architecture changes recorded in a checkpoint (`Learner.changes`) to a learner.

    The checkpoint's values then fit: parameters have the same names, and the same order in the optimizer. Call this on
    a newly built learner before values are loaded. Changes that it has already are not repeated.

    Raises:
        ValueError: The learner was changed in another way before.
    """
    done = len(learner.changes)
    if list(changes[:done]) != learner.changes:
        had, needed = ", ".join(learner.changes), ", ".join(changes) or "none"
        raise ValueError(f"the architecture of '{learner.name}' was changed by {had}; the checkpoint needs {needed}")
    for text in changes[done:]:
        parsed = parse_call(text)
        intervention = make(parsed.name, **parsed.params)
        with naming(f"{text}: restructure on '{learner.name}'", intervention):
            intervention.restructure(learner)
