"""Probability of improvement and performance profiles, beside rliable's own."""

from typing import Any

import numpy as np
import pytest

from supple.metrics import performance_profile, probability_of_improvement

DRAW = np.random.default_rng(3)
X, Y = DRAW.normal(0.6, 1.0, (8, 3)), DRAW.normal(0.0, 1.0, (6, 3))


@pytest.fixture
def library() -> Any:
    try:
        from rliable import library
    except TypeError:
        pytest.skip("rliable's arch 7 does not import with pandas 3")
    return library


@pytest.mark.slow
def test_the_probability_of_improvement_is_rliables(library: Any) -> None:
    from rliable import metrics

    result = probability_of_improvement(X, Y)
    assert result.mean == pytest.approx(metrics.probability_of_improvement(X, Y), abs=1e-12)
    np.random.seed(0)  # noqa: NPY002  (rliable draws from the global generator)
    _, ends = library.get_interval_estimates(
        {"pair": [X, Y]}, lambda x, y: np.array([metrics.probability_of_improvement(x, y)]), reps=400
    )
    assert (result.low, result.high) == pytest.approx(ends["pair"].ravel(), abs=0.04)


def test_ties_count_half_and_what_is_no_score_is_left_out() -> None:
    result = probability_of_improvement([[1.0], [2.0], [np.nan]], [[1.0], [0.0]])
    assert result.mean == pytest.approx((0.5 + 1 + 1 + 1) / 4)
    assert probability_of_improvement(X, X).mean == pytest.approx(0.5)


def test_a_single_run_and_runs_that_are_all_better_have_no_interval() -> None:
    result = probability_of_improvement([[1.0, 2.0]], [[0.0, 3.0]])
    assert (result.mean, result.low, result.high) == (0.5, None, None)
    assert probability_of_improvement([[2.0], [3.0]], [[0.0], [1.0]]).low is None


def test_a_profile_is_the_share_of_scores_above_each_threshold(library: Any) -> None:
    at = np.linspace(-1, 2, 7)
    result = performance_profile(X, at)
    np.testing.assert_allclose(result.share, library.score_distributions(X, at), atol=1e-12)
    assert (result.low <= result.share + 1e-9).all()
    assert (result.high >= result.share - 1e-9).all()
    assert (result.high - result.low).max() > 0.2
