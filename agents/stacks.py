"""Agents of several seeds as one stack: the members' axis of what environments see, and the members' networks."""

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import torch
from numpy.typing import NDArray
from torch import nn

from supple.interventions import Learner
from supple.networks import set_generators, stack_networks

from .draws import Draws, activation_generators, generators, seed_activations, sources_of, standing_in
from .settings import AgentSettings

Net = TypeVar("Net", bound=nn.Module)


def by_member(rows: NDArray[Any], stack: tuple[int, ...]) -> NDArray[Any]:
    """Return what belongs to the rows of environments, (rows, …), with the members' axis: (*stack, n, …).

    Args:
        rows: One entry for each environment, those of the first member first.
        stack: (members,), or () for one agent.
    """
    return rows.reshape(*stack, -1, *rows.shape[1:])


class StackedAgent:
    """An agent, or a stack of those of several seeds, each as if alone.

    The tensors of a stack have the members as their first axis: `stack` is (members,), and () for one agent. Members
    draw from generators of their own. What an environment sees has one axis of rows, those of the first member first.

    Attributes:
        activations: The generators of the members' random activations (see `activation_generators`).
    """

    learners: dict[str, Learner]

    def __init__(self, settings: AgentSettings, device: str) -> None:
        self.device = torch.device(device)
        self.seeds = len(settings.members) if settings.stacked else 0
        self.stack = (self.seeds,) if self.seeds else ()
        self._draws = generators(settings, "initial parameters")
        self.activations = activation_generators(settings, self.device)

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimizer of the first learner, which an intervention may replace."""
        optimizer = next(iter(self.learners.values())).optimizer
        assert optimizer is not None
        return optimizer

    def draw_network(self, make: Callable[[torch.Generator, int], Net]) -> Net:
        """Return a new network, or a stack of those of the members, each drawn as if alone.

        make: Returns a network that a generator initialises, for 0; else a stack of so many networks, with any values.
        """
        if isinstance(self._draws, torch.Generator):
            return make(self._draws, 0)
        drawn = []
        for source, of_activations in zip(self._draws, self.activations, strict=True):
            with standing_in(of_activations):
                drawn.append(make(source, 0))
        return stack_networks(drawn, partial(make, torch.Generator()))

    def randomness(self, draws: Draws) -> dict[str, Any]:
        """Return what a `Learner` has of random numbers, and its seeds. draws: The generators of its interventions."""
        own = sources_of(draws)
        if isinstance(self._draws, torch.Generator):
            return {"generator": own[0], "redraw_draws": (self._draws,)}
        redraw = chain.from_iterable(zip(self._draws, self.activations, strict=True))
        stacked = {"generators": own, "seeds": self.seeds, "activation_draws": self.activations}
        return {"generator": own[0], "redraw_draws": tuple(redraw), **stacked}

    def begin_activations(self, settings: AgentSettings, *modules: nn.Module) -> None:
        """Let the random activations of a stack's networks draw from the members' generators, which are seeded anew."""
        for module in modules if self.stack else ():
            set_generators(module, self.activations)
        if self.stack:
            seed_activations(settings, self.activations)

    def _generators(self) -> dict[str, Draws]:
        """Return the generators whose states belong to checkpoints."""
        return {"draws": self._draws, **({"activations": self.activations} if self.stack else {})}
