"""Optional capabilities of a learner. Each is needed by a few interventions or metrics, or by one agent.

A `Learner` inherits these groups, so all of them are keyword arguments of it, and attributes that may be set later.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from .layers import Scope

if TYPE_CHECKING:
    from .learner import Learner


def no_batches(count: int | None) -> Iterator[Tensor]:
    """Raise ValueError; this stands for the batches of a learner that has none."""
    raise ValueError("this learner offers no batches: give it some (Learner.batches)")


@dataclass(kw_only=True)
class MoreData:
    """Data beside one probe and one loss.

    batches: (dash, ewc, ranks of gradients) yields the training losses of single samples, differentiable, (batch,) or
        (members, batch), for so many successive batches of what it is trained on now; None: for one pass over that.
        Raises ValueError where there is nothing yet, or no end to pass to.
    endless: (dash) it learns from a memory that has no end to pass to, so `batches` needs a number.
    last_inputs: (cbp, snr) returns the inputs of the last update's batch alone, for what looks at every update;
        default: `probe`.
    another: (chain) returns the inputs of another minibatch of what it is trained on now, drawn by the learner's
        own generator at each call; None while there is none.
    retain: (sib) returns the loss on a batch of what must not be forgotten, differentiable; None: there is only `loss`.
    """

    batches: Callable[[int | None], Iterator[Tensor]] = no_batches
    endless: bool = False
    last_inputs: Callable[[], Sequence[Any] | None] | None = None
    another: Callable[[], Sequence[Any] | None] | None = None
    retain: Callable[[], Tensor] | None = None


@dataclass(kw_only=True)
class Specifics:
    """Capabilities of this network or agent that single methods ask for.

    injectable: (injection) qualified name of the submodule that is duplicated, or None.
    fire_scope: (fire) the layers that are rewritten where no scope is given.
    activation_draws: (injection, swap) where randomised activations draw from, as in `set_generators`; None: torch's
        global generator.
    algorithm: (contract="as_released") whose released reset contract applies ("dqn", "sac"); "" where nothing was
        released.
    temperature: (contracts of SAC) the entropy temperature of a SAC agent as a learner of its own, or None.
    """

    injectable: str | None = None
    fire_scope: Scope = "all"
    activation_draws: Sequence[torch.Generator] | None = None
    algorithm: str = ""
    temperature: "Learner | None" = None


@dataclass(kw_only=True)
class Compared:
    """Capabilities for measures of change, which look at two networks of one architecture on the same inputs.

    marked: the trained parameters at the last measurement, by name (see `Learner.mark`); belongs to the checkpoint.
        None: nobody marked any.
    answers: returns what the network says of inputs with these parameters, by name, where its forward pass returns
        something else, such as the action that was taken; None: what the forward pass returns (see `Learner.outputs`).
    policy: (churn, chain) returns the policy that the outputs stand for, given the parameters by name: a distribution
        for each row, or the actions themselves, (rows,), where the policy is deterministic.
    values: (churn, chain) returns the values among the outputs, (rows, …), of a stack (members, rows, …).
    redraw_draws: (trainability) the generators that `redraw` moves, beside the learner's own.
    """

    marked: dict[str, Tensor] | None = None
    answers: Callable[[Mapping[str, Tensor], Sequence[Any]], Any] | None = None
    policy: Callable[[Any, Mapping[str, Tensor]], Distribution | Tensor] | None = None
    values: Callable[[Any], Tensor] | None = None
    redraw_draws: tuple[torch.Generator, ...] = ()


@dataclass(kw_only=True)
class Restructured:
    """The traces of the interventions that changed the architecture (injection, swap, muon): they keep it.

    origins: name of a layer or of units → its name at the start, where an intervention moved it since. What people
        write and what logs say is the name at the start.
    changes: the interventions that changed the architecture so far, as texts in their order; belongs to the
        checkpoint (see `interventions.restructure`).
    renewed: name of a parameter or of units → how many `changes` there had been when it became the name of new ones.
    """

    origins: dict[str, str] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    renewed: dict[str, int] = field(default_factory=dict)

    def identity(self, name: str) -> str:
        """Return the key under which to remember something about a parameter or units.

        It is the name, until an intervention gives that name to new ones, to which older memory does not apply.
        """
        return f"{name}@{self.renewed[name]}" if name in self.renewed else name
