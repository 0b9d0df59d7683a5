"""The random numbers of an agent: one generator for each purpose or, in a stack, one for each member and purpose."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from supple.engine.seeding import derive, generator
from supple.networks.learner import Generators

from .settings import AgentSettings

Draws = torch.Generator | Sequence[torch.Generator]  # in a stack, one for each member


def generators(settings: AgentSettings, *purpose: int | str) -> Draws:
    """Return a generator that is seeded for a purpose; for a stack, one for each member, as in its run alone."""
    draws = tuple(generator(seed, *purpose) for seed in settings.members)
    return draws if settings.stacked else draws[0]


def sources_of(draws: Draws) -> Generators:
    """Return the generators one by one."""
    return (draws,) if isinstance(draws, torch.Generator) else tuple(draws)


def draw(function: Callable[..., Tensor], shape: int | Sequence[int], draws: Draws) -> Tensor:
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


def activation_generators(settings: AgentSettings, device: torch.device) -> Generators:
    """Return a generator for the random activations of each member of a stack; () outside a stack.

    One agent draws from PyTorch's global generator."""
    if not settings.stacked:
        return ()
    draws = tuple(torch.Generator(device) for _ in settings.members)
    seed_activations(settings, draws)
    return draws


def seed_activations(settings: AgentSettings, draws: Sequence[torch.Generator]) -> None:
    """Seed the members' generators of random activations, as the loop seeds the global one when training begins."""
    for seed, source in zip(settings.members, draws, strict=True):
        source.manual_seed(derive(seed, "torch"))


@contextmanager
def standing_in(source: torch.Generator) -> Iterator[None]:
    """Let a member's generator of activations stand for PyTorch's global one on the CPU, if it is on the CPU.

    New modules draw values from the global generator before they are initialised. Alone, an agent with random
    activations draws these in between."""
    if source.device.type != "cpu":
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(source.get_state())
        yield
        source.set_state(torch.get_rng_state())
