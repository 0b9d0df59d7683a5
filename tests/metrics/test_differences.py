"""Intervals, tests and numbers of seeds against scipy, published power tables and enumeration."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.metrics import holm, paired_difference, seeds_needed, sign_flip, t_interval

few = settings(max_examples=25)
numbers = st.floats(-1e3, 1e3).map(lambda x: round(x, 3))
shares = st.floats(0, 1)


# --- intervals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [2, 3, 10])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_interval_is_students_at_every_point(seeds: int, level: float) -> None:
    values = np.random.default_rng(0).normal(3, 2, (seeds, 4))
    expected = scipy.stats.t.interval(level, seeds - 1, values.mean(axis=0), scipy.stats.sem(values, axis=0))
    np.testing.assert_allclose(t_interval(values, level), expected)


def test_one_seed_and_equal_seeds_have_no_interval() -> None:
    assert t_interval([3.0]) is None
    assert t_interval([0.3, 0.1 + 0.2, 0.3]) is None
    low, high = t_interval([[0.2, 1.0], [0.2, 2.0]]) or ()
    assert low[0] == high[0] == 0.2


# --- paired differences ------------------------------------------------------------------------------------


@few
@given(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=8))
def test_paired_t_test_is_scipys(pairs: list[tuple[float, float]]) -> None:
    values, baseline = np.array(pairs).T
    difference = paired_difference(values, baseline)
    assert difference.mean == pytest.approx((values - baseline).mean(), abs=1e-9)
    if np.ptp(values - baseline) > 1e-6:
        assert difference.p_t == pytest.approx(scipy.stats.ttest_rel(values, baseline).pvalue, abs=1e-9)
        assert difference.low is not None
        assert difference.high is not None
        assert (difference.low <= 0 <= difference.high) == (difference.p_t >= 0.05)


def test_a_seed_that_one_arm_lacks_is_left_out() -> None:
    assert paired_difference([1.0, 5.0, math.nan, 3.0], [0.0, math.nan, 2.0, 1.0]) == paired_difference(
        [1.0, 3.0], [0.0, 1.0]
    )


def test_one_seed_gives_its_difference_and_nothing_else() -> None:
    one = paired_difference([3.0, math.nan], [1.0, 2.0])
    assert (one.n, one.mean) == (1, 2.0)
    assert one.low is one.high is one.p_t is one.p_sign_flip is one.seeds_needed is None
    assert math.isnan(paired_difference([1.0], [math.nan]).mean)


@pytest.mark.parametrize("values", [[1.0, 2.0], [2.2, 3.2, 4.2], [1.0 + i for i in range(6)]])
def test_equal_differences_have_no_interval_and_no_t_test(values: list[float]) -> None:
    difference = paired_difference(values, np.arange(1.0, 1 + len(values)))
    assert difference.mean == pytest.approx(values[0] - 1)
    assert difference.low is difference.high is difference.p_t is difference.seeds_needed is None
    assert (difference.p_sign_flip is None) == (len(values) < 6)


# --- sign flips --------------------------------------------------------------------------------------------


@few
@given(st.lists(numbers, min_size=1, max_size=9))
def test_sign_flips_are_those_of_all_choices(differences: list[float]) -> None:
    d = np.array(differences)
    sums = [abs(float(np.dot(signs, d))) for signs in itertools.product((-1, 1), repeat=len(d))]
    assert sign_flip(d) == pytest.approx(np.mean([s >= abs(d.sum()) - 1e-7 for s in sums]))


def test_sign_flips_are_scipys_exact_permutation_test() -> None:
    d = np.random.default_rng(1).normal(0.5, 1, 11)
    result = scipy.stats.permutation_test(
        (d,), lambda x, axis: x.mean(axis=axis), permutation_type="samples", n_resamples=np.inf, vectorized=True
    )
    assert sign_flip(d) == pytest.approx(result.pvalue, abs=1e-12)


@pytest.mark.parametrize(("seeds", "p"), [(5, None), (6, 2.0**-5), (40, 2.0**-39)])
def test_sign_flips_are_exact_from_six_seeds_on(seeds: int, p: float | None) -> None:
    """All of one sign: two of all choices."""
    assert paired_difference(np.arange(1.0, seeds + 1), np.zeros(seeds)).p_sign_flip == p


# --- Holm --------------------------------------------------------------------------------------------------


def test_holm_equals_a_computation_by_hand() -> None:
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    assert holm([]).shape == (0,)


@few
@given(st.lists(shares, min_size=1, max_size=8), st.floats(0.001, 0.5))
def test_holm_rejects_what_its_steps_reject(p_values: list[float], level: float) -> None:
    rejected, remaining = set(), len(p_values)
    for i in sorted(range(len(p_values)), key=p_values.__getitem__):
        if p_values[i] * remaining > level:
            break
        rejected.add(i)
        remaining -= 1
    assert {i for i, p in enumerate(holm(p_values)) if p <= level} == rejected


# --- seeds needed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("effect", "seeds"), [(0.2, 199), (0.5, 34), (0.8, 15), (1.0, 10)])
def test_seeds_needed_are_those_of_power_tables(effect: float, seeds: int) -> None:
    """G*Power 3.1, one-sample t test, two tails, α = .05, power .80."""
    assert seeds_needed(-3 * effect, 3.0) == seeds


def test_with_the_seeds_needed_the_test_has_its_power() -> None:
    n = seeds_needed(1.0, 1.2, power=0.9)
    assert n is not None
    rng = np.random.default_rng(0)
    told = [scipy.stats.ttest_1samp(rng.normal(1.0, 1.2, (size, 20_000)), 0.0).pvalue < 0.05 for size in (n, n - 1)]
    assert told[0].mean() == pytest.approx(0.9, abs=0.02)
    assert told[0].mean() > told[1].mean()


@few
@given(st.lists(numbers, min_size=2, max_size=8), st.integers(1, 6))
def test_a_difference_that_is_not_significant_needs_more_seeds(differences: list[float], arms: int) -> None:
    difference = paired_difference(differences, np.zeros(len(differences)), comparisons=arms)
    if difference.seeds_needed is not None and difference.p_t > 0.05 / arms:
        assert difference.seeds_needed > difference.n


def test_no_difference_and_one_far_below_the_noise_need_more_seeds_than_are_counted() -> None:
    assert [seeds_needed(mean, 1.0) for mean in (0.0, 1e-3, 1e6)] == [None, None, 2]
    assert seeds_needed(1.0, 0.0) == 2
