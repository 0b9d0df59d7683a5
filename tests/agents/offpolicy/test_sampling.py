"""Which transitions are drawn: probabilities that fall with age are those of the formula, exactly."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from supple.agents.dqn import DQNSettings
from supple.agents.offpolicy.replay import ReplayMemory
from supple.agents.offpolicy.sampling import Recency, Reservoir, Uniform, parse_sampling
from supple.registry.errors import UsageError
from tests.agents.offpolicy.test_replay import VECTORS, Shared, World, assert_members_draw_alone, draws, stream


def weights(recency: Recency, rows: int, num_envs: int) -> list[float]:
    """The weights of the rows of a ring, the newest first."""
    return [max(recency.low, 1 - age * num_envs / recency.horizon) for age in range(rows)]


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


@pytest.mark.parametrize(
    "recency", [Recency(40, 0.1), Recency(12, 0.3), Recency(10_000, 0.5), Recency(1, 1.0)], ids=str
)
def test_transitions_are_drawn_with_the_probabilities_of_the_formula(recency: Recency) -> None:
    memory = ReplayMemory(45, 3, VECTORS, sampling=recency)
    world = World(1, 3, VECTORS, truncations=0.3)
    stream(memory, world, 60, cuts=0.1)
    expected = {}
    for kept in world.kept:  # a row without an action has an age, and is not drawn
        rows = kept[-15:][::-1]
        expected |= {r.reward: w for r, w in zip(rows, weights(recency, len(rows), 3), strict=True) if r is not None}
    rewards, counts = memory.sample(30_000, draws()).rewards.unique(return_counts=True)
    assert set(rewards.tolist()) == expected.keys()
    wanted = np.array([expected[reward] for reward in rewards.tolist()])
    assert chisquare(counts.numpy(), 30_000 * wanted / wanted.sum()).pvalue > 0.01


def test_a_member_draws_by_age_as_alone() -> None:
    recency = Recency(20, 0.2)
    stack = ReplayMemory(30, 1, VECTORS, members=2, sampling=recency)
    alone = [ReplayMemory(30, 1, VECTORS, sampling=recency) for _ in range(2)]
    stream(Shared(stack, alone), World(3, 2, VECTORS), 50)
    assert_members_draw_alone(stack, alone)


def test_samplings_are_named_as_calls() -> None:
    assert parse_sampling("uniform") == Uniform()
    assert parse_sampling("recency(horizon=40_000,low=.2)") == Recency(40_000, 0.2)
    assert parse_sampling("reservoir") == Reservoir()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("recent", "--replay-sampling: unknown replay sampling 'recent': did you mean 'recency'?"),
        ("recency(horizon=0)", "--replay-sampling: recency: horizon must be at least 1 transition, got 0"),
        ("recency(low=0)", "--replay-sampling: recency: low must lie in (0, 1], got 0"),
        ("recency(age=3)", "--replay-sampling: recency has no parameter 'age'"),
        ("reservoir(size=3)", "--replay-sampling: reservoir has no parameter 'size'"),
    ],
)
def test_a_wrong_sampling_is_refused_before_training(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)) as found:
        DQNSettings(env="CartPole-v1", steps=100_000, replay_sampling=text).check()
    assert "\n" not in str(found.value)
