"""Values of JSON are converted to declared types, or named with the type that they should have."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import pytest

from supple.registry.schema import convert


@dataclass
class Point:
    x: int
    y: float = 0.5


class Entry(TypedDict):
    name: str
    points: list[Point]
    note: NotRequired[str]


@pytest.mark.parametrize(
    ("value", "wanted", "found"),
    [
        (3, int, 3),
        (3, float, 3),
        ([1, 2], tuple[int, ...], (1, 2)),
        ([0.9, 0.999], tuple[float, float], (0.9, 0.999)),
        (None, tuple[int, ...] | None, None),
        ("/data", Path | None, Path("/data")),
        ("on", Literal["on", "off"], "on"),
        ({"x": 1}, Point, Point(1)),
        ({"name": "a", "points": [{"x": 1, "y": 2}]}, Entry, {"name": "a", "points": [Point(1, 2)]}),
        ({"a": {"b": []}}, dict[str, Any], {"a": {"b": []}}),
    ],
)
def test_a_value_is_converted_to_its_type(value: Any, wanted: Any, found: Any) -> None:
    assert convert(value, wanted, "it") == found
    assert type(convert(value, wanted, "it")) is type(found)


@pytest.mark.parametrize(
    ("value", "wanted", "words"),
    [
        (True, int, "it should be an integer, but is true"),
        (2.0, int, r"it should be an integer, but is 2\.0"),
        (float("nan"), float, "it should be a finite number, but is NaN"),
        (10**400, float, "it should be a finite number, but is 1000"),
        ("3", int | None, 'it should be an integer or null, but is "3"'),
        ([1, "x"], tuple[int, ...], r"it\[1\] should be an integer"),
        ([1.0], tuple[float, float], "it should be a list of 2 items, but is \\[1.0\\]"),
        ([1, None], tuple[int, ...] | None, "it should be null or a list, each item an integer, but is \\[1, null\\]"),
        ({}, str, "it should be a text, but is an object of 0"),
        ("maybe", Literal["on", "off"], "it should be one of on, off"),
        (["on"], Literal["on", "off"], "it should be one of on, off"),
        ({"y": 1}, Point, r"it\.x is missing"),
        ({"x": 1, "z": 1}, Point, r"it\.z is unknown"),
        ({"name": "a", "points": [{"x": None}]}, Entry, r"it\.points\[0\]\.x should be an integer, but is null"),
        ({"points": []}, Entry, r"it\.name is missing"),
        ({"²": {"no name": 1}}, dict[str, dict[str, str]], r'it\."\\u00b2"\."no name" should be a text|it\.²\.'),
    ],
)
def test_a_value_of_the_wrong_type_is_named(value: Any, wanted: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        convert(value, wanted, "it")
