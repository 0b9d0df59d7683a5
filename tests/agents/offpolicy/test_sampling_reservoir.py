"""A reservoir is a uniform sample of all transitions so far, stored whole."""

import numpy as np
import pytest
from scipy.stats import chisquare

from supple.agents.offpolicy.replay import ReplayLayout
from supple.agents.offpolicy.sampling import ReservoirMemory
from supple.envs import StepResult
from tests.agents.offpolicy.test_replay import Shared, World, assert_members_draw_alone, both, draws, stream


def rewards_of(memory: ReservoirMemory) -> set[float]:
    return set(memory.sample(50 * memory.sizes().sum(), draws()).rewards.tolist()) if memory.sizes().sum() else set()


@both
def test_transitions_are_stored_whole(layout: ReplayLayout) -> None:
    memory, world = ReservoirMemory(10, 3, layout, draws(1)), World(2, 3, layout)
    stream(memory, world, 3, cuts=0.2)
    assert memory.sizes().sum() == 9
    stream(memory, world, 40, cuts=0.1)
    seen = {row.reward: row for kept in world.kept for row in kept if row is not None}
    assert memory.sizes().sum() == len(rewards_of(memory)) == 10
    assert min(rewards_of(memory)) < 43 * 3 - 10  # older than the newest ten
    for frames, taken, reward, terminated in zip(*memory.sample(100, draws()), strict=True):
        transition = seen[float(reward)]
        s, following = (frames[0], frames[1]) if layout.stack is None else (frames[:-1], frames[1:])
        assert np.array_equal(s, transition.s.astype(layout.dtype))
        assert np.array_equal(following, transition.following.astype(layout.dtype))
        assert np.array_equal(taken, transition.action.astype(np.float32 if layout.action else int))
        assert bool(terminated) == transition.terminated


@pytest.mark.slow
def test_every_transition_so_far_is_kept_equally_often() -> None:
    """Two environments at a time, which may hit the same place."""
    layout, counts, no, obs = (
        ReplayLayout((1,), np.float32, actions=2),
        np.zeros(12),
        np.zeros(2, bool),
        np.zeros((2, 1)),
    )
    for seed in range(1_500):
        memory = ReservoirMemory(3, 2, layout, draws(seed))
        memory.begin(obs)
        for step in range(6):
            memory.add(np.zeros(2, int), 2.0 * step + np.arange(2), StepResult(obs, no, no, no, obs, []))
        row = memory.reward[0, memory.stack - 1 :: memory.each][:3].astype(int)
        assert len(set(row)) == 3
        counts[row] += 1
    assert chisquare(counts).pvalue > 0.01


@both
def test_a_member_keeps_what_it_keeps_alone(layout: ReplayLayout) -> None:
    """Also if another member begins again."""
    stack = ReservoirMemory(6, 1, layout, [draws(1), draws(2)], members=2)
    alone = [ReservoirMemory(6, 1, layout, draws(1 + member)) for member in range(2)]
    world, shared = World(8, 2, layout), Shared(stack, alone)
    stream(shared, world, 21)
    stack.marks[0] = 0
    alone[0].keep(0)
    for _ in range(19):
        world.step(shared)
    assert_members_draw_alone(stack, alone)
