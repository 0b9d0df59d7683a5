"""A reservoir is a uniform sample of all transitions so far, stored whole."""

import numpy as np
import pytest
from scipy.stats import chisquare

from supple.agents.offpolicy.replay import ReplayLayout
from supple.agents.offpolicy.sampling import ReservoirMemory
from supple.envs import StepResult
from tests.agents.offpolicy.test_replay import World, assert_whole, both, draws, stream


@both
def test_transitions_are_stored_whole(layout: ReplayLayout) -> None:
    memory, world = ReservoirMemory(10, 3, layout, draws(1)), World(2, 3, layout)
    for steps, left in ((3, 9), (40, 10)):
        stream(memory, world, steps, cuts=0.1)
        sample = memory.sample(500, draws())
        seen = {row.reward: row for kept in world.kept for row in kept if row is not None}
        assert_whole(sample, {reward: seen[reward] for reward in sample.rewards.unique().tolist()}, layout)
        assert memory.sizes().sum() == len(sample.rewards.unique()) == left
    assert sample.rewards.min() < 43 * 3 - 10  # older than the newest ten


@pytest.mark.slow
def test_every_transition_so_far_is_kept_equally_often() -> None:
    """Two environments at a time, which may hit the same place."""
    layout, counts = ReplayLayout((1,), np.float32, actions=2), np.zeros(12)
    no, obs = np.zeros(2, bool), np.zeros((2, 1))
    for seed in range(1_500):
        memory = ReservoirMemory(3, 2, layout, draws(seed))
        memory.begin(obs)
        for step in range(6):
            memory.add(np.zeros(2, int), 2.0 * step + np.arange(2), StepResult(obs, no, no, no, obs, []))
        row = memory.reward[0, memory.stack - 1 :: memory.each][:3].astype(int)
        assert len(set(row)) == 3
        counts[row] += 1
    assert chisquare(counts).pvalue > 0.01
