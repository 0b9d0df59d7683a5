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
    """Raise ValueError. This is the default of `Learner.batches`."""
    raise ValueError("this learner offers no batches: give it some (Learner.batches)")


@dataclass(kw_only=True)
class MoreData:
    """Data that some interventions and metrics need in addition to the probe and the loss.

    Attributes:
        batches: (dash, ewc, ranks of gradients) Yields the differentiable training losses of single samples, (batch,)
            or (members, batch), for a number of successive batches of the current data. None: one pass over these data.
            Raises ValueError if there are no data yet, or if a pass over them never ends.
        endless: (dash) Whether the learner has a replay memory, over which a pass never ends. `batches` then needs a
            number.
        last_inputs: (cbp, snr) Returns the inputs of the last update's batch only. Default: `probe`.
        another: (chain) Returns the inputs of another minibatch of the current data at each call, drawn by the
            learner's generator. Returns None while there are no data.
        last_loss: (chain) Returns the loss of the last update without penalties, (): the policy's for a policy, else
            the values'.
        retain: (sib) Returns the differentiable loss on a batch of the data to retain. None: `loss` is used.
    """

    batches: Callable[[int | None], Iterator[Tensor]] = no_batches
    endless: bool = False
    last_inputs: Callable[[], Sequence[Any] | None] | None = None
    another: Callable[[], Sequence[Any] | None] | None = None
    last_loss: Callable[[], Tensor] | None = None
    retain: Callable[[], Tensor] | None = None


@dataclass(kw_only=True)
class Specifics:
    """Properties of a network or agent that single interventions need.

    Attributes:
        injectable: (injection) Qualified name of the submodule that is duplicated, or None.
        fire_scope: (fire) The layers that are rewritten if no scope is given.
        activation_draws: (injection, swap) The generators of randomised activations, as in `set_generators`. None:
            PyTorch's global generator.
        algorithm: (contract="as_released") The algorithm whose released reset contract applies, "dqn" or "sac". "" if
            no code was released.
        temperature: (contracts of SAC) The learner of SAC's entropy temperature, or None.
    """

    injectable: str | None = None
    fire_scope: Scope = "all"
    activation_draws: Sequence[torch.Generator] | None = None
    algorithm: str = ""
    temperature: "Learner | None" = None


@dataclass(kw_only=True)
class Compared:
    """Data for metrics of change, which compare two networks of one architecture on the same inputs.

    Attributes:
        marked: The trained parameters at the last measurement, by name (see `Learner.mark`). Checkpoints contain them.
            None before the first measurement.
        answers: Returns the network's outputs for inputs and for parameters by name. Needed if the forward pass returns
            something else, such as a sampled action. None: the forward pass (see `Learner.outputs`).
        policy: (churn, chain) Returns the policy for outputs and for parameters by name: a distribution for each row,
            or the actions, (rows,), if the policy is deterministic.
        values: (churn, chain) Returns the values among the outputs, (rows, …), or (members, rows, …) for a stack.
        redraw_draws: (trainability) The generators that `redraw` advances, in addition to the learner's own.
    """

    marked: dict[str, Tensor] | None = None
    answers: Callable[[Mapping[str, Tensor], Sequence[Any]], Any] | None = None
    policy: Callable[[Any, Mapping[str, Tensor]], Distribution | Tensor] | None = None
    values: Callable[[Any], Tensor] | None = None
    redraw_draws: tuple[torch.Generator, ...] = ()


@dataclass(kw_only=True)
class Restructured:
    """A record of the changes of architecture (injection, swap, muon), which the interventions keep.

    Attributes:
        origins: Current name of a layer or of units → its name at the start. Users and logs use the name at the start.
        changes: The interventions that changed the architecture so far, as texts, in order. Checkpoints contain them
            (see `interventions.restructure`).
        renewed: Name of a parameter or of units → the number of `changes` at the time when it was given to new ones.
    """

    origins: dict[str, str] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    renewed: dict[str, int] = field(default_factory=dict)

    def identity(self, name: str) -> str:
        """Return the key under which an intervention stores data about a parameter or units.

        It is the name. If a change of architecture has given this name to new parameters or units, the key is a
        different one, because stored data do not apply to them.
        """
        return f"{name}@{self.renewed[name]}" if name in self.renewed else name
