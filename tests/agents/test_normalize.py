import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.agents.normalize import RewardScale, RunningMeanStd


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    scale=st.floats(0.01, 100),
    shift=st.floats(-100, 100),
)
def test_running_statistics_equal_those_of_the_whole_stream(
    seed: int, sizes: list[int], scale: float, shift: float
) -> None:
    rng = np.random.default_rng(seed)
    batches = [shift + scale * rng.normal(size=(n, 3)) for n in sizes]
    running = RunningMeanStd(3)
    for batch in batches:
        running.update(batch)
    # The prior counts as 1e-4 observations of mean 0 and variance 1.
    stream, prior = np.concatenate(batches), 1e-4
    n = len(stream)
    mean = stream.sum(0) / (n + prior)
    variance = (((stream - mean) ** 2).sum(0) + prior * (1 + mean**2)) / (n + prior)
    np.testing.assert_allclose(running.mean, mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(running.variance, variance, rtol=1e-9)


def test_running_statistics_of_a_long_stream_are_numpys() -> None:
    stream = np.random.default_rng(0).normal(3, 2, size=(20_000, 4))
    running = RunningMeanStd(4)
    for batch in stream.reshape(-1, 8, 4):
        running.update(batch)
    np.testing.assert_allclose(running.mean, stream.mean(0), rtol=1e-7)
    np.testing.assert_allclose(running.variance, stream.var(0), rtol=1e-6)


def test_the_variance_does_not_drift_where_the_mean_is_far_larger() -> None:
    # In float32, 1e6 ± 0.1 is 1e6 ± 0.125 at best, and sums of squares lose everything.
    stream = 1e6 + 0.1 * np.random.default_rng(0).normal(size=(30_000, 1))
    running = RunningMeanStd(1)
    running.count = 0.0  # without the prior, which is 1e6 away
    for batch in stream.reshape(-1, 10, 1):
        running.update(batch)
    assert running.variance.dtype == np.float64
    np.testing.assert_allclose(running.variance, stream.var(0), rtol=1e-4)


def test_normalizing_centres_scales_and_clips() -> None:
    running = RunningMeanStd(2)
    running.mean, running.variance = np.array([1.0, -2.0]), np.array([4.0, 0.25])
    out = running.normalize(np.array([[3.0, -2.5], [1e9, -1e9]]), clip=10.0)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, [[1.0, -1.0], [10.0, -10.0]], rtol=1e-6)


def test_state_survives_a_round_trip() -> None:
    running = RunningMeanStd(2)
    running.update(np.random.default_rng(0).normal(size=(5, 2)))
    other = RunningMeanStd(2)
    other.load_state_dict(running.state_dict())
    more = np.ones((3, 2))
    running.update(more)
    other.update(more)
    np.testing.assert_array_equal(running.mean, other.mean)
    np.testing.assert_array_equal(running.variance, other.variance)


def test_rewards_are_divided_by_the_spread_of_the_discounted_return() -> None:
    rng = np.random.default_rng(0)
    scale, statistics, returns = RewardScale(2, gamma=0.9), RunningMeanStd(1), np.zeros(2)
    for _ in range(50):
        rewards, done = 5 * rng.normal(size=2), rng.random(2) < 0.1
        scaled = scale(rewards, done, clip=10.0)
        for env in range(2):
            returns[env] = 0.9 * returns[env] + rewards[env]
        statistics.update(returns.reshape(2, 1))
        returns[done] = 0.0
        np.testing.assert_allclose(scaled, np.clip(rewards / np.sqrt(statistics.variance + 1e-8), -10, 10))


@pytest.mark.parametrize("end", ["done", "cut"])
def test_a_discounted_return_ends_with_its_episode(end: str) -> None:
    scale = RewardScale(2, gamma=0.9)
    scale(np.ones(2), np.array([end == "done", False]), clip=10.0)
    if end == "cut":
        scale.cut()
    np.testing.assert_array_equal(scale.returns, [0.0, 1.0] if end == "done" else [0.0, 0.0])


def test_scaled_rewards_are_clipped() -> None:
    scale = RewardScale(1, gamma=0.0)
    for _ in range(1000):
        scale(np.array([0.01]), np.array([False]), clip=10.0)
    assert scale(np.array([1.0]), np.array([False]), clip=10.0) == 10.0
