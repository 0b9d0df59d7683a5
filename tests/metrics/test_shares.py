"""The share of a fresh agent: of a seed, and over seeds with an interval that holds what it says."""

import math
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from supple.metrics import share_of_fresh, share_over_seeds

few = settings(max_examples=50, deadline=None)
AREA, FRESH, RANDOM = np.array([40.0, 52, 47, 61]), np.array([95.0, 100, 108, 99]), np.array([9.0, 12, 10, 8])


@few
@given(st.floats(-1e3, 1e3), st.floats(0.1, 1e3), st.floats(-1, 2), st.floats(-1e3, 1e3), st.floats(0.1, 10))
def test_share_of_fresh_has_no_unit_and_no_offset(
    random: float, learned: float, share: float, offset: float, unit: float
) -> None:
    numbers = np.array([random + share * learned, random + learned, random])
    assert share_of_fresh(*numbers) == pytest.approx(share, abs=1e-9)
    assert share_of_fresh(*(unit * numbers + offset)) == pytest.approx(share, abs=1e-6)


def test_share_of_a_fresh_agent_that_learned_nothing_is_unknown() -> None:
    actual = share_of_fresh([1.0, 1.0, -150.0], [2.0, 0.0, -100.0], [0.0, 0.0, -200.0])
    np.testing.assert_array_equal(actual, [0.5, math.nan, 0.5])


@few
@given(st.floats(-1e3, 1e3), st.floats(0.01, 100), st.integers(1, 3))
def test_the_share_over_seeds_and_its_interval_have_no_unit_and_no_offset(
    offset: float, unit: float, environments: int
) -> None:
    numbers = np.random.default_rng(environments).normal([[[5.0]], [[9.0]], [[1.0]]], 1.0, (3, 4, environments))
    plain, changed = share_over_seeds(*numbers), share_over_seeds(*(unit * numbers + offset))
    assert (changed.mean, changed.low, changed.high) == pytest.approx((plain.mean, plain.low, plain.high), abs=1e-6)


def test_the_share_is_the_ratio_of_means_and_not_the_mean_of_ratios() -> None:
    share = share_over_seeds([1.0, 5.0], [0.1, 9.9], [0.0, 0.0])  # of the seeds alone: 10 and 0.5
    assert share.mean == pytest.approx(0.6)
    assert np.mean(share_of_fresh([1.0, 5.0], [0.1, 9.9], [0.0, 0.0])) > 5


def test_fiellers_ends_are_the_shares_that_a_t_test_just_rejects() -> None:
    share = share_over_seeds(AREA, FRESH, RANDOM)
    for end in (share.low, share.high):
        assert ttest_1samp(AREA - RANDOM - end * (FRESH - RANDOM), 0.0).pvalue == pytest.approx(0.05)


def test_an_interval_is_not_bounded_if_the_fresh_agent_may_have_learned_nothing() -> None:
    share = share_over_seeds([3.0, 5.0, 4.0], [30.0, -8.0, 10.0], [0.0, 0.0, 0.0])
    assert (share.mean, share.low, share.high) == (pytest.approx(0.375), -math.inf, math.inf)
    assert math.isnan(share_over_seeds([3.0, 5.0], [-30.0, 8.0], [0.0, 0.0]).mean)


def test_several_environments_are_averaged_whatever_their_units() -> None:
    area, fresh, random = (np.column_stack([values, 1000 * values]) for values in (AREA, FRESH, RANDOM))
    one, two = share_over_seeds(AREA, FRESH, RANDOM), share_over_seeds(area, fresh, random)
    assert two.mean == pytest.approx(one.mean)
    assert two.low == pytest.approx(one.low, abs=0.02)  # the delta method and Fieller agree without much noise
    area[:, 1] = fresh[:, 1]
    assert share_over_seeds(area, fresh, random).mean == pytest.approx((one.mean + 1) / 2)


def test_a_seed_without_a_number_is_left_out_and_one_seed_has_no_interval() -> None:
    numbers = np.stack([AREA, FRESH, RANDOM])
    numbers[1, 2] = np.nan
    share = share_over_seeds(*numbers)
    assert share == share_over_seeds(*np.delete(numbers, 2, axis=1))
    assert share.n == 3
    one = share_over_seeds([1.0, math.nan], [2.0, 2.0], [0.0, 0.0])
    assert (one.n, one.mean, one.low, one.high) == (1, 0.5, None, None)
    assert share_over_seeds([math.nan], [1.0], [0.0]).n == 0


@pytest.fixture(scope="module")
def simulated() -> dict[str, Any]:
    return runpy.run_path(str(Path(__file__).parents[2] / "docs" / "interval_coverage.py"))


@pytest.mark.parametrize(
    ("noise", "seeds", "environments", "coverage", "bounded"),
    [(0.5, 5, 1, 0.95, 0.9), (1.0, 3, 1, 0.98, 0.2), (0.5, 5, 4, 0.96, 1.0)],
)
def test_the_interval_covers_the_share_as_the_page_says(
    simulated: dict[str, Any], noise: float, seeds: int, environments: int, coverage: float, bounded: float
) -> None:
    found = simulated["cover_share"](noise, seeds, 1000, environments)
    assert found == (pytest.approx(coverage, abs=0.025), pytest.approx(bounded, abs=0.05))
