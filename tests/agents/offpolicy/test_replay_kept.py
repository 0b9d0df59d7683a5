"""A memory that keeps its newest transitions: nothing older is drawn, frames before the cut remain for stacks."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.agents.offpolicy.replay import ReplayMemory
from tests.agents.offpolicy.test_replay import FRAME, ReplayLayout, World, draws, stream


@pytest.mark.slow
@settings(max_examples=80)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_envs=st.integers(1, 3),
    capacity=st.integers(3, 25),
    stack=st.sampled_from([None, 1, 4]),
    before=st.integers(0, 60),
    share=st.sampled_from([0.0, 0.1, 0.5, 0.95, 1.0]),
    later=st.integers(0, 40),
)
def test_what_is_kept_is_the_newest_share_of_each_environment(
    seed: int, num_envs: int, capacity: int, stack: int | None, before: int, share: float, later: int
) -> None:
    layout = ReplayLayout(FRAME, np.uint8, stack)
    memory, world = ReplayMemory(capacity, num_envs, layout), World(seed, num_envs, layout, 0.2, 0.2)
    stream(memory, world, before, cuts=0.1)
    window = [kept[-math.ceil(capacity / num_envs) :] for kept in world.kept]
    left = []
    for kept in window:
        rewards = [row.reward for row in kept if row is not None]
        left.append(set(rewards[len(rewards) - math.ceil(round(share * len(rewards), 6)) :]))
    memory.keep(share)
    assert memory.sizes().sum() == sum(map(len, left))
    assert memory.ready == all([any(left)])
    for _ in range(later):
        world.step(memory)
    first = before * num_envs + num_envs - 1  # rewards of transitions after the cut are larger
    wanted = {r: t for r, t in world.newest(capacity).items() if r > first or any(r in rewards for rewards in left)}
    assert memory.sizes().sum() == len(wanted)
    if wanted:
        sample = memory.sample(30 * len(wanted), draws())
        assert set(sample.rewards.tolist()) == wanted.keys()
        for frames, _, reward, _ in zip(*sample, strict=True):
            s, following = (frames[0], frames[1]) if stack is None else (frames[:-1], frames[1:])
            assert np.array_equal(s, wanted[float(reward)].s)
            assert np.array_equal(following, wanted[float(reward)].following)


def test_a_memory_that_keeps_nothing_is_not_sampled_until_there_is_more() -> None:
    layout = ReplayLayout((5,), np.float32)
    memory, world = ReplayMemory(30, 2, layout), World(5, 2, layout)
    stream(memory, world, 40)
    memory.keep(0.0)
    with pytest.raises(ValueError, match="the replay memory is empty"):
        memory.sample(4, draws())
    world.step(memory)
    assert torch.equal(memory.sample(50, draws()).rewards.unique(), torch.tensor([82.0, 83.0]))
