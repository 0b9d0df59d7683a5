"""Agents of several seeds as one stack: the members' axis of what environments see, and the members' networks."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeVar

import torch
from numpy.typing import NDArray
from torch import nn

from ..envs.independent import share_state
from ..networks import stack_networks
from .draws import Draws, standing_in

Net = TypeVar("Net", bound=nn.Module)


def by_member(rows: NDArray[Any], stack: tuple[int, ...]) -> NDArray[Any]:
    """Return what belongs to the rows of environments, (rows, …), with the members' axis: (*stack, n, …).

    Args:
        rows: One entry for each environment, those of the first member first.
        stack: (members,), or () for one agent.
    """
    return rows.reshape(*stack, -1, *rows.shape[1:])


@cache
def copies_interfere(env: str, kwargs: str) -> bool:
    """Return `share_state` of an environment and the JSON text of its arguments, tried once by each process."""
    return share_state(env, json.loads(kwargs))


def draw_network(
    make: Callable[[torch.Generator], Net],
    make_stack: Callable[[int], Net],
    draws: Draws,
    activations: Sequence[torch.Generator],
) -> Net:
    """Return a new network of an agent, or a stack of those of its members, each drawn as if alone.

    Args:
        make: Returns a network, initialised by a generator.
        make_stack: Returns a stack of a number of networks, with any values.
        draws: The generators of initial parameters.
        activations: The generators of the members' random activations (see `activation_generators`).
    """
    if isinstance(draws, torch.Generator):
        return make(draws)
    drawn = []
    for source, of_activations in zip(draws, activations, strict=True):
        with standing_in(of_activations):
            drawn.append(make(source))
    return stack_networks(drawn, make_stack)


def redraw_draws(draws: Draws, activations: Sequence[torch.Generator]) -> tuple[torch.Generator, ...]:
    """Return the generators that `draw_network` advances, as `Learner.redraw_draws` has them: member after member."""
    if isinstance(draws, torch.Generator):
        return (draws,)
    return tuple(chain.from_iterable(zip(draws, activations, strict=True)))
