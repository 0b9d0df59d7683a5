"""The points of a sweep: what varies, in which combinations, and what is drawn."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supple.experiments.sweeps.space import Choice, Random, Range, Space
from supple.registry.errors import UsageError

RATE = Range(1e-4, 1e-1, log=True)


def test_points_are_all_combinations_of_grid_list_and_draws() -> None:
    space = Space(
        {"a": [1, 2], "b": ["x"]}, [{"c": 1}, {"c": 2, "d": 3}], Random(5, {"rate": RATE, "e": Choice((True, None))})
    )
    points = space.points()
    assert len(points) == 2 * 2 * 5
    assert {(p["a"], p["b"], p["c"], p.get("d")) for p in points} == {
        (1, "x", 1, None), (2, "x", 1, None), (1, "x", 2, 3), (2, "x", 2, 3),
    }  # fmt: skip
    assert len({p["rate"] for p in points}) == 5


def test_what_varies_in_nothing_has_one_point_and_one_that_is_drawn_twice_is_there_once() -> None:
    assert Space().points() == [{}]
    drawn = Space(random=Random(50, {"a": Choice((1, 2, 3))})).points()
    assert sorted(point["a"] for point in drawn) == [1, 2, 3]


@given(seed=st.integers(0, 99), count=st.integers(1, 6), more=st.integers(1, 6))
def test_more_draws_add_points_and_change_none(seed: int, count: int, more: int) -> None:
    values = {"rate": RATE, "width": Range(8, 64), "act": Choice(("relu", "tanh"))}
    assert Random(count + more, values, seed).draw()[:count] == Random(count, values, seed).draw()


@given(
    seed=st.integers(0, 9999),
    low=st.floats(1e-6, 1e3),
    factor=st.floats(1.001, 1e6),
    log=st.booleans(),
)
def test_what_is_drawn_lies_in_its_range(seed: int, low: float, factor: float, log: bool) -> None:
    (point,) = Random(1, {"x": Range(low, low * factor, log)}, seed).draw()
    assert low <= point["x"] <= low * factor


@given(seed=st.integers(0, 9999), low=st.integers(1, 50), more=st.integers(1, 1000), log=st.booleans())
def test_between_whole_numbers_whole_ones_are_drawn(seed: int, low: int, more: int, log: bool) -> None:
    (point,) = Random(1, {"x": Range(low, low + more, log)}, seed).draw()
    assert type(point["x"]) is int
    assert low <= point["x"] <= low + more


def test_the_logarithm_is_uniform() -> None:
    drawn = [point["x"] for point in Random(4000, {"x": Range(1e-4, 1.0, log=True)}).draw()]
    for i in range(4):  # each decade has a quarter of them, give or take five standard deviations
        share = sum(10.0 ** (i - 4) <= x < 10.0 ** (i - 3) for x in drawn) / len(drawn)
        assert share == pytest.approx(0.25, abs=5 * (0.25 * 0.75 / 4000) ** 0.5)


@pytest.mark.parametrize(
    ("space", "says"),
    [
        (Space({"a": []}), "a is empty"),
        (Space({"a": [1]}, [{"a": 2}]), "a is given twice"),
        (Space(random=Random(1, {"a": Range(2, 1)})), "random.a: low must be below high, got 2 and 1"),
        (Space(random=Random(1, {"a": Range(0, 1, log=True)})), "random.a: with log, both ends must be above 0"),
    ],
)
def test_what_has_no_points_is_refused(space: Any, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        space.points()
