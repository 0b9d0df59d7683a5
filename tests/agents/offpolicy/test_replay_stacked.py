"""The memories of a stack of agents: each member's is that of its run alone."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from supple.agents.dqn import DQNSettings
from supple.agents.offpolicy.experience import Draws, Experience
from supple.agents.offpolicy.replay import ReplayLayout, ReplayMemory, Sample
from supple.envs import StepResult
from supple.registry.errors import Diverged
from tests.agents.offpolicy.test_replay import VECTORS, Shared, World, assert_members_draw_alone, both, draws, stream

MEMBERS, ENVS, CAPACITY = 3, 2, 24


def fill(layout: ReplayLayout, steps: int) -> tuple[ReplayMemory, list[ReplayMemory]]:
    """Return the memory of a stack, and those of its members alone."""
    stack = ReplayMemory(CAPACITY, ENVS, layout, members=MEMBERS)
    alone = [ReplayMemory(CAPACITY, ENVS, layout) for _ in range(MEMBERS)]
    stream(Shared(stack, alone), World(0, MEMBERS * ENVS, layout, truncations=0.2), steps, cuts=0.1)
    return stack, alone


def sources(*seeds: int) -> list[torch.Generator]:
    return [draws(seed) for seed in seeds]


def of(sample: Sample, member: int) -> list[Tensor]:
    return [tensor[member] for tensor in sample]


@both
@pytest.mark.parametrize("steps", [1, 5, 60])
def test_a_members_sample_is_that_of_its_memory_alone(layout: ReplayLayout, steps: int) -> None:
    assert_members_draw_alone(*fill(layout, steps))


@both
def test_the_memory_of_a_stack_goes_on_from_its_rows(layout: ReplayLayout) -> None:
    stack, alone = fill(layout, 45)
    state = stack.state_dict()
    assert len(state["envs"]) == MEMBERS * ENVS
    restored = ReplayMemory(CAPACITY, ENVS, layout, members=MEMBERS)
    restored.load_state_dict(state)
    sample = restored.sample(30, sources(4, 5, 6))
    for ours, theirs in zip(sample, stack.sample(30, sources(4, 5, 6)), strict=True):
        assert torch.equal(ours, theirs)
    with pytest.raises(ValueError, match="do not change --num-envs or --replay-size"):
        restored.load_state_dict(alone[0].state_dict())


def test_a_member_without_transitions_is_not_sampled() -> None:
    memory, no = ReplayMemory(1, 1, VECTORS, members=2), np.zeros(2, bool)
    obs = np.zeros((2, 5))
    memory.begin(obs)
    memory.add(
        np.zeros((2, 2)), np.zeros(2), StepResult(obs, no, no, np.array([True, False]), obs, [])
    )  # its last frame is the only row
    assert memory.sizes().tolist() == [0, 1]
    with pytest.raises(ValueError, match="the replay memory is empty"):
        memory.sample(4, sources(1, 2))


# -- experience ----------------------------------------------------------------------------------------------


def experience(*seeds: int, **changes: Any) -> Experience[tuple[Sample, Tensor]]:
    def prepare(sample: Sample, draws: Draws) -> tuple[Sample, Tensor]:
        of = [draws] if isinstance(draws, torch.Generator) else draws
        noise = torch.stack([torch.randn(2, generator=source) for source in of])
        return sample, noise if len(seeds) > 1 else noise[0]

    own: dict[str, Any] = {"seed": seeds[0], "seeds": seeds} if len(seeds) > 1 else {"seed": seeds[0]}
    settings = DQNSettings(
        env="a", steps=100, num_envs=ENVS, replay_size=CAPACITY, learning_starts=6, batch_size=4, **own, **changes
    )
    return Experience(settings, VECTORS, torch.device("cpu"), ("loss", "value"), prepare)


def lived(seeds: tuple[int, ...], steps: int) -> tuple[Experience[Any], list[Experience[Any]]]:
    """Return the experience of a stack, and those of its members alone."""
    stack, alone = experience(*seeds), [experience(seed) for seed in seeds]
    stream(Shared(stack, alone), World(0, MEMBERS * ENVS, VECTORS, truncations=0.2), steps)
    return stack, alone


def test_a_member_counts_and_draws_what_it_does_alone() -> None:
    seeds = (7, 0, 12)
    stack, alone = lived(seeds, 12)
    assert stack.decisions == alone[0].decisions == 24
    for together, *separate in zip(stack.due(), *(one.due() for one in alone), strict=True):
        for member, sample in enumerate(separate):
            assert all(torch.equal(a, b) for a, b in zip(of(together, member), sample, strict=True))
    assert (stack.taken, stack.updates) == (alone[0].taken, alone[0].updates) == (18, 18)
    drawn = sources(1, 2, 3), sources(1, 2, 3)
    for kind in ("recent", "another"):
        found, noise = getattr(stack, kind)(*([drawn[0]] if kind == "another" else []))
        for member, one in enumerate(alone):
            wanted, of_member = getattr(one, kind)(*([drawn[1][member]] if kind == "another" else []))
            assert all(torch.equal(a, b) for a, b in zip(of(found, member), wanted, strict=True))
            assert torch.equal(noise[member], of_member)


def test_numbers_of_a_stack_are_lists_and_tell_which_member_diverged() -> None:
    stack, alone = lived((0, 1, 2), 12)
    stack.updates = alone[0].updates = alone[1].updates = 2
    stack.sums += torch.tensor([[2.0, 4.0], [float("nan"), 1.0], [6.0, 8.0]])
    assert stack.sound().tolist() == [True, False, True]
    numbers = stack.numbers()
    assert numbers["replay/size"] == [float(one.memory.sizes().sum()) for one in alone]
    assert (numbers["loss"][0], numbers["loss"][2], numbers["value"]) == (1.0, 3.0, [2.0, 0.5, 4.0])
    assert numbers["updates"] == [2.0, 2.0, 2.0]
    assert stack.sound().all()
    alone[0].sums += torch.tensor([2.0, 4.0])
    assert bool(alone[0].sound())
    assert alone[0].numbers() == {
        "replay/size": float(alone[0].memory.sizes().sum()),
        "loss": 1.0,
        "value": 2.0,
        "updates": 2.0,
    }
    alone[1].sums += float("inf")
    assert not bool(alone[1].sound())
    with pytest.raises(Diverged, match="the loss is not finite"):
        alone[1].numbers()


def test_the_experience_of_a_stack_goes_on_from_its_state() -> None:
    stack, _ = lived((0, 1, 2), 12)
    batches = list(stack.due())
    stack.sums += 1.0
    other, _ = lived((0, 1, 2), 3)
    other.load_state_dict(stack.state_dict())
    assert len(batches) > 0
    assert (other.decisions, other.taken, other.updates) == (stack.decisions, stack.taken, stack.updates)
    assert torch.equal(other.sums, stack.sums)
    for a, b in zip(other.feed(5, other.draws), stack.feed(5, stack.draws), strict=True):
        assert torch.equal(a, b)
