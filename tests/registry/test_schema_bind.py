"""Parameters that fit a factory's signature pass, and others are refused by name."""

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
        (
            {"stepz": 5},
            "fire has no parameter 'stepz': did you mean 'steps'? (parameters: steps, ratio, scope, tolerance, fresh)",
        ),
        ({"steps": "abc"}, 'fire: steps should be an integer, but is "abc"'),
        ({"steps": 1.5}, "fire: steps should be an integer, but is 1.5"),
        ({"steps": True}, "fire: steps should be an integer, but is true"),
        ({"ratio": True}, "fire: ratio should be a finite number, but is true"),
        ({"ratio": None}, "fire: ratio should be a finite number, but is none"),
        ({"fresh": 1}, "fire: fresh should be true or false, but is 1"),
        ({"tolerance": "x"}, 'fire: tolerance should be a finite number or none, but is "x"'),
        (
            {"scope": "cnov"},
            "fire: scope should be one of all, conv or a list, each item a text, but is \"cnov\": did you mean 'conv'?",
        ),
        ({"scope": ("a", 1)}, 'fire: scope should be one of all, conv or a list, each item a text, but is ["a", 1]'),
    ],
)
def test_bind_refuses_what_does_not_fit(params, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole message is compared
        bind(fire, params, "fire")
    assert str(caught.value) == message


def test_bind_asks_for_required_parameters():
    class Needy:
        def __init__(self, target: str, extra: int = 0) -> None: ...

    with pytest.raises(ValueError, match="needy needs a value for 'target'"):
        bind(Needy, {"extra": 1}, "needy")
    with pytest.raises(ValueError, match=r"plain has no parameter 'x' \(it takes no parameters\)"):
        bind(lambda: None, {"x": 1}, "plain")
