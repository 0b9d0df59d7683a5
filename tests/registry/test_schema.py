"""Values of JSON are converted to declared types, or named with the type that they should have."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

from supple.registry import bind
from supple.registry.schema import Positive, Share, beyond, convert, most, read


def sorted_(value: Any) -> Any:
    return sorted(map(int, value))


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
        (3, float, 3),
        (1e6, int, 1_000_000),
        ([1, 2], tuple[int, ...], (1, 2)),
        (None, tuple[int, ...] | None, None),
        ("/data", Path | None, Path("/data")),
        ("on", Literal["on", "off"], "on"),
        ({"x": 1}, Point, Point(1)),
        ({"name": "a", "points": [{"x": 1, "y": 2}]}, Entry, {"name": "a", "points": [Point(1, 2)]}),
    ],
)
def test_a_value_is_converted_to_its_type(value: Any, wanted: Any, found: Any) -> None:
    assert convert(value, wanted, "it") == found
    assert type(convert(value, wanted, "it")) is type(found)


@pytest.mark.parametrize(
    ("value", "wanted", "words"),
    [
        (True, int, "it should be an integer, but is true"),
        (float("nan"), float, "it should be a finite number, but is NaN"),
        (10**400, float, "it should be a finite number, but is 1000"),
        ("3", int | None, 'it should be an integer or none, but is "3"'),
        ([1, "x"], tuple[int, ...], r"it\[1\] should be an integer"),
        ([1.0], tuple[float, float], "it should be a list of 2 items, but is \\[1.0\\]"),
        ([1, None], tuple[int, ...] | None, "it should be none or a list, each item an integer, but is \\[1, null\\]"),
        ({}, str, "it should be a text, but is an object of 0"),
        ("maybe", Literal["on", "off"], "it should be one of on, off"),
        ({"y": 1}, Point, r"it\.x is missing"),
        ({"x": 1, "z": 1}, Point, r"it\.z is unknown"),
        ({"name": "a", "points": [{"x": None}]}, Entry, r"it\.points\[0\]\.x should be an integer, but is none"),
        ({"points": []}, Entry, r"it\.name is missing"),
        ({"²": {"no name": 1}}, dict[str, dict[str, str]], r'it\."\\u00b2"\."no name" should be a text|it\.²\.'),
    ],
)
def test_a_value_of_the_wrong_type_is_named(value: Any, wanted: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        convert(value, wanted, "it")


@pytest.mark.parametrize(
    ("text", "wanted", "found"),
    [
        ("1_000", int, 1000),
        ("2.5e6", int, 2_500_000),
        ("true", bool, True),
        ("none", str | None, "none"),
        ("None", float | None, None),
        ("auto", int | Literal["auto"], "auto"),
        ("4", int | Literal["auto"], 4),
        ("64 32", tuple[int, ...] | None, (64, 32)),
        ("[64,32]", tuple[int, ...], (64, 32)),
        ("none", tuple[int, ...] | None, None),
        (["a b", "c"], tuple[str, ...], ("a b", "c")),
        ("'a b' c", tuple[str, ...], ("a b", "c")),
        ("'0,1'", str, "0,1"),
        ("2 1", Annotated[tuple[int, ...], sorted_], (1, 2)),
    ],
)
def test_a_text_is_read_by_the_type(text: str | list[str], wanted: Any, found: Any) -> None:
    assert read(text, wanted, "it") == found
    assert type(read(text, wanted, "it")) is type(found)


@pytest.mark.parametrize(
    ("text", "wanted"), [("x", int), ("1.5", int), ("inf", float), ("1", bool), ("1 x", tuple[int, ...])]
)
def test_a_text_of_another_type_is_refused(text: str, wanted: Any) -> None:
    with pytest.raises(ValueError, match="should be"):
        read(text, wanted, "it")


@pytest.mark.parametrize("text", ["it's", "[1,2"])
def test_a_list_that_does_not_end_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="widths: "):
        read(text, tuple[str, ...], "widths")


@pytest.mark.parametrize(
    ("value", "wanted", "words"),
    [
        (0, Positive[int], ["must be a positive number, got 0"]),
        ("auto", Positive[int] | Literal["auto"], []),
        (-1, Positive[int] | Literal["auto"], ["must be a positive number, got -1"]),
        ((5, 0), tuple[Positive[int], ...] | None, ["must be a positive number, got 0"]),
        ((0.5, 2.0), tuple[Share, Share], ["must lie in [0, 1], got 2.0"]),
        (float("nan"), float, ["must be a finite number, got nan"]),
        (2**60, int, ["must be 9,007,199,254,740,992 at most, got 1152921504606846976"]),
        (7, Annotated[int, most(5)], ["must be 5 at most, got 7"]),
    ],
)
def test_numbers_that_are_not_possible_are_named(value: Any, wanted: Any, words: list[str]) -> None:
    assert list(beyond(value, wanted)) == words


def fire(
    steps: int = 10,
    ratio: float = 1.0,
    scope: Literal["all", "conv"] | tuple[str, ...] = "all",
    tolerance: float | None = None,
    fresh: bool = False,
) -> None:
    """A factory with one parameter of each kind."""


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"steps": 3, "ratio": 2, "scope": "conv", "tolerance": None, "fresh": True},
        {"ratio": 2.5, "scope": ("a", "b"), "tolerance": 1},
    ],
)
def test_bind_passes_what_fits(params):
    assert bind(fire, params, "fire") == params


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"stepz": 5}, "fire has no parameter 'stepz': did you mean 'steps'? (parameters: steps, ratio, "),
        ({"steps": "abc"}, 'fire: steps should be an integer, but is "abc"'),
        ({"ratio": None}, "fire: ratio should be a finite number, but is none"),
        ({"fresh": 1}, "fire: fresh should be true or false, but is 1"),
        ({"scope": "cnov"}, "a list, each item a text, but is \"cnov\": did you mean 'conv'?"),
    ],
)
def test_bind_refuses_what_does_not_fit(params, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        bind(fire, params, "fire")


def test_bind_asks_for_required_parameters():
    class Needy:
        def __init__(self, target: str, extra: int = 0) -> None: ...

    with pytest.raises(ValueError, match="needy needs a value for 'target'"):
        bind(Needy, {"extra": 1}, "needy")
    with pytest.raises(ValueError, match=r"plain has no parameter 'x' \(it takes no parameters\)"):
        bind(lambda: None, {"x": 1}, "plain")
