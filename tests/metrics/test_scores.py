"""IQM and plasticity score against plain loops and rliable."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.metrics import final_window_return, iqm, learning_curve_area, plasticity_score

few = settings(max_examples=25)


def draw(runs: int, environments: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(100, 50, (runs, environments))


# --- IQM ---------------------------------------------------------------------------------------------------


@few
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
def test_iqm_is_the_mean_of_the_middle_half(values: list[float]) -> None:
    cut = len(values) // 4
    middle = sorted(values)[cut : len(values) - cut]
    assert iqm(values) == pytest.approx(sum(middle) / len(middle), rel=1e-9, abs=1e-6)


def test_iqm_refuses_nan() -> None:
    with pytest.raises(ValueError, match="iqm"):
        iqm([1.0, math.nan])


# --- plasticity score --------------------------------------------------------------------------------------


def test_scores_are_normalized_by_percentiles_over_all_methods() -> None:
    returns = {"a": draw(5, 3, 1), "b": draw(4, 3, 2) + 80}
    low, high = np.percentile(np.concatenate(list(returns.values())), (5, 95), axis=0)
    result = plasticity_score(returns, reps=50)
    for name, values in returns.items():
        expected = np.clip((values - low) / (high - low), 0, 1)
        np.testing.assert_allclose(result[name].normalized, expected, atol=1e-12)
        assert result[name].iqm == pytest.approx(iqm(result[name].normalized), rel=1e-12)
        assert 0 <= result[name].low <= result[name].iqm <= result[name].high <= 1
    assert result["b"].iqm > result["a"].iqm


def test_scores_do_not_depend_on_an_environments_units() -> None:
    returns = {"a": draw(5, 3, 1), "b": draw(5, 3, 2)}
    shifted = {name: values * [1, 20, 0.1] + [0, 500, 3] for name, values in returns.items()}
    plain, changed = plasticity_score(returns, reps=50), plasticity_score(shifted, reps=50)
    for name in returns:
        np.testing.assert_allclose(plain[name].normalized, changed[name].normalized, atol=1e-12)


@pytest.mark.parametrize(("value", "exploded"), [(-501.0, False), (math.inf, False), (1e20, True)])
def test_failures_score_zero_and_leave_the_bounds_alone(value: float, exploded: bool) -> None:
    healthy, flag = draw(6, 2), np.zeros((7, 2), bool)
    failing = np.vstack([healthy, [[value, 100.0]]])
    flag[-1, 0] = exploded
    kept = plasticity_score({"a": healthy}, reps=10)["a"].normalized
    result = plasticity_score({"a": failing}, exploded={"a": flag}, reps=10)["a"].normalized
    assert result[-1, 0] == 0
    np.testing.assert_array_equal(result[:-1, 0], kept[:, 0])


def test_the_floor_can_be_moved() -> None:
    returns = {"a": np.array([[-900.0], [-700.0], [-200.0], [-100.0]])}
    assert plasticity_score(returns, reps=10)["a"].normalized[:2].max() == 0
    assert plasticity_score(returns, floor=-1000, reps=10)["a"].normalized[1, 0] > 0


@pytest.mark.parametrize("column", [[7.0, 7.0, 7.0], [0.3, 0.1 + 0.2, -1e9], [-1e9, -1e9, math.inf]])
def test_an_environment_without_spread_has_no_score(column: list[float]) -> None:
    score = plasticity_score({"a": np.array(column)[:, None]}, reps=10)["a"]
    assert np.isnan([score.iqm, score.low, score.high, *score.normalized.ravel()]).all()
    beside = plasticity_score({"a": np.column_stack([column, [1.0, 2.0, 3.0]])}, reps=10)["a"]
    alone = plasticity_score({"a": [[1.0], [2.0], [3.0]]}, reps=10)["a"]
    assert beside.iqm == alone.iqm


def test_a_missing_run_is_left_out_and_does_not_count_as_zero() -> None:
    returns = {"a": draw(5, 2, 1), "b": draw(5, 2, 2)}
    returns["a"][1, 0] = math.nan
    score = plasticity_score(returns)["a"]
    assert np.isnan(score.normalized).sum() == 1
    assert score.iqm == iqm(score.normalized[~np.isnan(score.normalized)])
    assert 0 < score.low < score.iqm < score.high


def test_bounds_that_coincide_have_scores_at_the_limits() -> None:
    outlier = np.r_[np.full(60, 7.0), 8.0][:, None]  # both percentiles are 7
    scores = plasticity_score({"a": outlier}, reps=10)["a"].normalized
    assert scores.ravel().tolist() == [0.0] * 60 + [1.0]


def test_a_single_run_has_no_interval() -> None:
    score = plasticity_score({"a": draw(1, 4), "b": draw(5, 4, 1)}, reps=20)["a"]
    assert score.low == pytest.approx(score.iqm, abs=1e-12)
    assert score.high == pytest.approx(score.iqm, abs=1e-12)


def test_interval_equals_a_plain_stratified_bootstrap() -> None:
    score = plasticity_score({"a": draw(4, 3)}, reps=60, seed=11, confidence=0.8)["a"]
    rng = np.random.RandomState(11)
    samples = []
    for _ in range(60):
        rows = rng.choice(4, size=(4, 3))
        samples.append(iqm([score.normalized[rows[r, e], e] for r in range(4) for e in range(3)]))
    assert (score.low, score.high) == pytest.approx(tuple(np.percentile(samples, (10, 90))), abs=1e-12)


@pytest.mark.slow
def test_interval_equals_rliable() -> None:
    try:
        from rliable import library, metrics
    except TypeError:
        pytest.skip("rliable's arch 7 does not import with pandas 3")
    score = plasticity_score({"a": draw(5, 4)}, reps=200, seed=5)["a"]
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    point, interval = library.get_interval_estimates(
        {"a": score.normalized}, lambda x: np.array([metrics.aggregate_iqm(x)]), reps=200
    )
    np.random.set_state(state)  # noqa: NPY002
    assert score.iqm == point["a"][0]
    np.testing.assert_allclose((score.low, score.high), interval["a"].ravel(), rtol=0, atol=1e-12)


def test_same_seed_same_interval_and_the_global_generator_is_untouched() -> None:
    returns = {"a": draw(5, 3, 1), "b": draw(5, 3, 2)}
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (plasticity_score(returns, reps=100, seed=seed)["a"] for seed in (3, 3, 4))
    reordered = plasticity_score(dict(reversed(returns.items())), reps=100, seed=3)["a"]
    assert (first.low, first.high) == (again.low, again.high) == (reordered.low, reordered.high)
    assert (first.low, first.high) != (other.low, other.high)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


# --- final window ------------------------------------------------------------------------------------------


def test_final_window_takes_the_last_fifteen_percent_of_a_task() -> None:
    steps = [1_000, 1_850, 1_851, 1_900, 2_000, 2_001]
    returns = [9.0, 9.0, 1.0, 2.0, 6.0, 9.0]
    assert final_window_return(steps, returns, start=1_000, end=2_000) == 3.0
    assert final_window_return(steps, returns, 1_000, 2_000, fraction=1.0) == 4.5  # step 1000: the task before


def test_final_window_reaches_back_to_an_episode_of_its_task() -> None:
    assert final_window_return([10, 20, 20], [1.0, 2.0, 4.0], start=0, end=1000) == 3.0
    assert math.isnan(final_window_return([10, 20, 1001], [1.0, 2.0, 4.0], start=20, end=1000))
    assert math.isnan(final_window_return([], [], start=0, end=1000))


# --- area under a learning curve, and its share of a fresh agent's ------------------------------------------


def test_an_episode_at_a_switch_belongs_to_the_task_before() -> None:
    assert learning_curve_area([100, 101, 200], [9.0, 1.0, 1.0], 100, 200) == 1.0
    assert math.isnan(learning_curve_area([100], [9.0], 100, 200))


@few
@given(st.lists(st.tuples(st.integers(1, 100), st.integers(-9, 9)), min_size=1, max_size=30), st.integers(1, 12))
def test_area_is_that_of_a_plain_loop(episodes: list[tuple[int, int]], bins: int) -> None:
    values: list[float | None] = []
    for b in range(bins):
        inside = [r for s, r in episodes if b * 100 < s * bins <= (b + 1) * 100]
        values.append(sum(inside) / len(inside) if inside else (values[-1] if values else None))
    known = [value for value in values if value is not None]
    expected = [known[0] if value is None else value for value in values]
    actual = learning_curve_area(*zip(*episodes, strict=True), 0, 100, bins)
    assert actual == pytest.approx(sum(expected) / bins)
