import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.agents.normalize import BoundedRewardScale, Centre, RewardScale, RunningMeanStd


@pytest.mark.slow
@settings(max_examples=40)
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
    stream = np.concatenate(batches)
    np.testing.assert_allclose(running.mean, stream.mean(0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(running.variance, stream.var(0), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_the_variance_does_not_drift_where_the_mean_is_far_larger() -> None:
    # In float32, 1e6 ± 0.1 is 1e6 ± 0.125 at best, and sums of squares lose everything.
    stream = 1e6 + 0.1 * np.random.default_rng(0).normal(size=(30_000, 1))
    running = RunningMeanStd(1)
    for batch in stream.reshape(-1, 10, 1):
        running.update(batch)
    assert running.variance.dtype == np.float64
    np.testing.assert_allclose(running.variance, stream.var(0), rtol=1e-4)


@pytest.mark.parametrize("rows", [1, 8])
@pytest.mark.parametrize("offset", [5_400_000.0, -1e12])
def test_an_offset_does_not_enter_the_deviation(offset: float, rows: int) -> None:
    stream = offset + np.random.default_rng(0).uniform(-1, 1, size=(4_000, 1))
    running = RunningMeanStd(1)
    assert running.normalize(np.array([[3.0]]), clip=10.0) == 3.0  # nothing was observed yet
    for batch in stream.reshape(-1, rows, 1):
        running.update(batch)
        assert running.count > 1 or running.normalize(batch, clip=10.0) == 0.0  # the first observation
    assert running.normalize(stream, clip=10.0).std() == pytest.approx(1.0, rel=1e-3)


def test_only_large_values_are_subtracted_and_float32_keeps_the_rest() -> None:
    seen = np.array([[5.4e6, 0.5, -1e9, 127.0]]) + np.random.default_rng(0).uniform(-1, 1, (200, 4))
    centre = Centre(4)
    centre.begin(seen)
    centre.begin(2 * seen)  # only the first counts
    np.testing.assert_array_equal(centre.offset, np.where([True, False, True, False], seen[0], 0.0))
    kept = centre(seen).astype(np.float32)
    assert [len(np.unique(column)) for column in kept.T] == [200] * 4
    np.testing.assert_array_equal(kept[:, [1, 3]], seen[:, [1, 3]].astype(np.float32))
    short = np.full((2, 3), 5.4e6, np.float32)
    plain = Centre(3)
    plain.begin(short)
    assert plain(short) is short


def test_the_offset_is_saved_and_restored() -> None:
    centre, other = Centre(2), Centre(2)
    centre.begin(np.array([[1e6, 0.0]]))
    other.load_state_dict(centre.state_dict())
    other.begin(np.array([[7e6, 7e6]]))
    np.testing.assert_array_equal(other.offset, [1e6, 0.0])
    with pytest.raises(ValueError, match="the offset of observations"):
        Centre(3).load_state_dict(centre.state_dict())


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
    for spread in [5] * 50 + [500]:  # of the last rewards, some are clipped
        rewards, done = spread * rng.normal(size=2), rng.random(2) < 0.1
        scaled = scale(rewards, done, clip=1.0)
        returns = 0.9 * returns + rewards
        statistics.update(returns.reshape(2, 1))
        returns[done] = 0.0
        np.testing.assert_allclose(scaled, np.clip(rewards / np.sqrt(statistics.variance + 1e-8), -1, 1))
    assert np.abs(scaled).max() == 1


@pytest.mark.parametrize("end", ["done", "cut"])
def test_a_discounted_return_ends_with_its_episode(end: str) -> None:
    scale = RewardScale(2, gamma=0.9)
    scale(np.ones(2), np.array([end == "done", False]), clip=10.0)
    if end == "cut":
        scale.reset_returns()
    np.testing.assert_array_equal(scale.returns, [0.0, 1.0] if end == "done" else [0.0, 0.0])


def test_bounded_rewards_are_divided_by_the_spread_or_the_largest_magnitude_of_the_return() -> None:
    """SimBaV2's rule, for each member of a stack; a member that begins again is as new."""
    rng = np.random.default_rng(0)
    scale, returns, seen = BoundedRewardScale(2, 0.9, (3,), 5.0), np.zeros((3, 2)), []
    rewards = rng.normal(size=(60, 3, 2))
    rewards[-1, 1] = -50.0  # only its magnitude is unusual
    for step in rewards:
        done = rng.random((3, 2)) < 0.1
        scale.count(step, done)
        returns = 0.9 * returns + step
        seen.append(returns.copy())
        returns[done] = 0.0
    found, each = scale.factors(), np.stack(seen).swapaxes(0, 1).reshape(3, -1)
    spread, largest = np.sqrt(each.var(1) + 1e-8), np.abs(each).max(1) / 5
    np.testing.assert_allclose(found, 1 / np.maximum(spread, largest), rtol=1e-6)
    np.testing.assert_array_equal(largest > spread, [False, True, False])
    scale.forget([1])
    np.testing.assert_array_equal(scale.factors(), [found[0], 1.0, found[2]])
