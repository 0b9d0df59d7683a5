"""Which transitions are drawn: probabilities that fall with age are those of the formula, exactly."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from supple.agents.dqn import DQNSettings
from supple.agents.offpolicy.replay import ReplayMemory
from supple.agents.offpolicy.sampling import Recency, Uniform, parse_sampling
from supple.registry.errors import UsageError
from tests.agents.offpolicy.test_replay import VECTORS, World, draws, stream


def weights(sampling: Uniform, rows: int, num_envs: int) -> list[float]:
    """Return the weights of the rows of a ring, the newest first."""
    if not isinstance(sampling, Recency):
        return [1.0] * rows
    return [max(sampling.low, 1 - age * num_envs / sampling.horizon) for age in range(rows)]


@given(
    rows=st.lists(st.integers(0, 60), min_size=1, max_size=3),
    horizon=st.integers(1, 100),
    low=st.floats(0.01, 1.0),
)
def test_the_three_terms_add_up_to_the_weight_of_every_row(rows: list[int], horizon: int, low: float) -> None:
    recency = Recency(horizon, low)
    newest, parts = recency.parts(np.array(rows))
    for n, m, (everywhere, level, triangle) in zip(rows, newest.tolist(), parts, strict=True):
        sums = np.zeros(n)
        sums += everywhere / n if n else 0
        sums[:m] += level / m if m else 0
        smaller = np.arange(m - 1, -1, -1) / (m * (m - 1) / 2) if m > 1 else np.zeros(m)  # of two different numbers < m
        sums[:m] += triangle * smaller
        assert sums == pytest.approx(weights(recency, n, len(rows)), abs=1e-9)


@pytest.mark.parametrize("sampling", [Uniform(), Recency(40, 0.1), Recency(12, 0.3), Recency(10_000, 0.5)], ids=str)
def test_transitions_are_drawn_with_the_probabilities_of_the_formula(sampling: Uniform) -> None:
    memory, world = ReplayMemory(45, 3, VECTORS, sampling=sampling), World(1, 3, VECTORS, truncations=0.3)
    stream(memory, world, 60, cuts=0.1)
    expected = {}
    for kept in world.kept:  # a row without an action has an age, and is not drawn
        rows = kept[-15:][::-1]
        expected |= {r.reward: w for r, w in zip(rows, weights(sampling, len(rows), 3), strict=True) if r is not None}
    rewards, counts = memory.sample(30_000, draws()).rewards.unique(return_counts=True)
    assert set(rewards.tolist()) == expected.keys()
    wanted = np.array([expected[reward] for reward in rewards.tolist()])
    assert chisquare(counts.numpy(), 30_000 * wanted / wanted.sum()).pvalue > 0.01


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("recent", "unknown replay sampling 'recent': did you mean 'recency'?"),
        ("recency(horizon=0)", "recency: horizon must be at least 1"),
        ("recency(low=0)", "recency: low must lie in (0, 1], got 0"),
        ("reservoir(size=3)", "reservoir has no parameter 'size'"),
    ],
)
def test_a_sampling_is_named_as_a_call_and_a_wrong_one_is_refused(text: str, says: str) -> None:
    assert parse_sampling("recency(horizon=40_000,low=.2)") == Recency(40_000, 0.2)
    with pytest.raises(UsageError, match=re.escape(f"--replay-sampling: {says}")):
        DQNSettings(env="CartPole-v1", steps=100_000, replay_sampling=text).check()
