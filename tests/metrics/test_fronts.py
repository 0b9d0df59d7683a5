import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.metrics import hypervolume, pareto_front

# few values, so that points often coincide in one number or in both
POINTS = st.lists(st.tuples(st.integers(-3, 6), st.integers(-3, 6)), max_size=12)


@pytest.mark.slow
@settings(max_examples=100)
@given(POINTS)
def test_a_point_is_on_the_front_exactly_if_no_other_dominates_it(points: list[tuple[int, int]]) -> None:
    expected = [
        not any(a >= x and b >= y and (a, b) != (x, y) for a, b in points)  # a loop over all pairs
        for x, y in points
    ]
    assert pareto_front(points).tolist() == expected


@pytest.mark.slow
@settings(max_examples=100)
@given(POINTS)
def test_hypervolume_counts_the_unit_squares_that_some_point_covers(points: list[tuple[int, int]]) -> None:
    covered = sum(any(x > i and y > j for x, y in points) for i in range(6) for j in range(6))
    assert hypervolume(points) == covered


@pytest.mark.slow
@settings(max_examples=50)
@given(POINTS, st.tuples(st.integers(-3, 6), st.integers(-3, 6)))
def test_hypervolume_never_falls_when_a_point_is_added(points: list[tuple[int, int]], new: tuple[int, int]) -> None:
    before, after = hypervolume(points, (-1, -1)), hypervolume([*points, new], (-1, -1))
    assert after >= before
    if points and not pareto_front([*points, new])[-1]:
        assert after == before


def test_hypervolume_is_measured_from_the_reference() -> None:
    assert hypervolume([(0.5, 0.25), (0.25, 0.5)], (0.0, 0.0)) == pytest.approx(0.1875)
    assert hypervolume([(0.5, 0.25), (0.25, 0.5)], (0.25, 0.25)) == 0.0
    assert hypervolume(np.empty((0, 2))) == 0.0
