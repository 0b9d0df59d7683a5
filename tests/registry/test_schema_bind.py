"""Parameters that fit a factory's signature pass, and others are refused by name."""

import re
from typing import Literal

import pytest

from supple.registry import bind


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
