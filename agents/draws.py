"""The random numbers of an agent: one generator for each purpose or, in a stack, one for each member and purpose."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from ..engine.seeding import generator

Draws = torch.Generator | Sequence[torch.Generator]  # in a stack, one for each member


class Seeded(Protocol):
    """Settings that say which seeds a run trains."""

    @property
    def members(self) -> tuple[int, ...]:
        """The seeds."""

    @property
    def stacked(self) -> bool:
        """Whether the agents of several seeds are a stack."""


def generators(settings: Seeded, *purpose: int | str) -> Draws:
    """Return a generator that is seeded for a purpose; for a stack, one for each member, as in its run alone."""
    draws = tuple(generator(seed, *purpose) for seed in settings.members)
    return draws if settings.stacked else draws[0]


def sources_of(draws: Draws) -> tuple[torch.Generator, ...]:
    """Return the generators one by one."""
    return (draws,) if isinstance(draws, torch.Generator) else tuple(draws)


def draw(function: Callable[..., Tensor], shape: Sequence[int], draws: Draws) -> Tensor:
    """Return what `function(shape, generator=…)` draws, such as `torch.randn`: (*shape,), or (members, *shape)."""
    if isinstance(draws, torch.Generator):
        return function(shape, generator=draws)
    return torch.stack([function(shape, generator=source) for source in draws])


def states_of(draws: Draws) -> Any:
    """Return the state of the generators for a checkpoint: a tensor, or a list of one for each member of a stack."""
    return draws.get_state() if isinstance(draws, torch.Generator) else [source.get_state() for source in draws]


def set_states(draws: Draws, states: Any) -> None:
    """Restore what `states_of` returned."""
    if isinstance(draws, torch.Generator):
        draws.set_state(states)
    else:
        for source, state in zip(draws, states, strict=True):
            source.set_state(state)
