"""`tolerance`, beside a formula in NumPy and by its properties."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.envs.tolerance import quietness, tolerance

SIGMOIDS = ("gaussian", "linear", "quadratic")
numbers = st.floats(-50, 50)
intervals = st.tuples(numbers, numbers).map(sorted)
margins = st.floats(0.01, 20)


def formula(x: float, low: float, high: float, margin: float, sigmoid: str) -> float:
    d = max(low - x, x - high, 0.0) / margin
    return {
        "gaussian": np.exp(np.log(0.1) * d**2),
        "linear": np.clip(1 - d, 0, 1),
        "quadratic": np.clip(1 - d**2, 0, 1),
    }[sigmoid]


@pytest.mark.slow
@settings(max_examples=100)
@given(numbers, intervals, margins, st.sampled_from(SIGMOIDS))
def test_it_equals_the_formula(x: float, interval: list[float], margin: float, sigmoid: str):
    assert tolerance(x, *interval, margin, sigmoid) == pytest.approx(formula(x, *interval, margin, sigmoid), abs=1e-12)


@settings(max_examples=50)
@given(intervals, margins, st.sampled_from(SIGMOIDS))
def test_it_is_one_inside_and_takes_its_value_at_the_margin(interval: list[float], margin: float, sigmoid: str):
    low, high = interval
    for x in (low, high, (low + high) / 2):
        assert tolerance(x, low, high, margin, sigmoid) == 1.0
    at_margin = 0.1 if sigmoid == "gaussian" else 0.0
    assert tolerance(high + margin, low, high, margin, sigmoid) == pytest.approx(at_margin, abs=1e-9)
    assert tolerance(low - margin, low, high, margin, sigmoid) == pytest.approx(at_margin, abs=1e-9)


@settings(max_examples=50)
@given(st.floats(0, 100), st.floats(0, 100), intervals, margins, st.sampled_from(SIGMOIDS))
def test_it_falls_with_the_distance_alike_on_both_sides(
    a: float, b: float, interval: list[float], margin: float, sigmoid: str
):
    low, high = interval
    near, far = sorted((a, b))
    values = [tolerance(high + d, low, high, margin, sigmoid) for d in (near, far)]
    assert 0.0 <= values[1] <= values[0] <= 1.0
    assert tolerance(low - far, low, high, margin, sigmoid) == pytest.approx(values[1], abs=1e-9)


def test_without_a_margin_or_an_upper_bound():
    assert [tolerance(x, -1.0, 1.0) for x in (-1.0001, -1.0, 1.0, 1.0001)] == [0.0, 1.0, 1.0, 0.0]
    assert tolerance(1e9, 2.0, margin=1.0) == 1.0
    assert tolerance(1.0, 2.0, margin=1.0) == pytest.approx(0.1)


def test_nan_stays_nan():
    assert math.isnan(tolerance(math.nan, 0.0, 1.0, 1.0))


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(numbers, min_size=1, max_size=20), margins)
def test_quietness_is_the_mean_of_quadratic_tolerances(values: list[float], margin: float):
    expected = np.mean([tolerance(x, 0.0, 0.0, margin, "quadratic") for x in values])
    assert quietness(values, margin) == pytest.approx(expected, abs=1e-12)
