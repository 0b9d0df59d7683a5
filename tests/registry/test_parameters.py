"""Parameters that fit a factory's signature pass; those that do not are answered with the parameter's name."""

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
        ({"steps": "abc"}, "fire: steps must be int, not 'abc'"),
        ({"steps": 1.0}, "fire: steps must be int, not 1.0"),
        ({"steps": True}, "fire: steps must be int, not True"),
        ({"ratio": True}, "fire: ratio must be float, not True"),
        ({"ratio": None}, "fire: ratio must be float, not None"),
        ({"fresh": 1}, "fire: fresh must be bool, not 1"),
        ({"tolerance": "x"}, "fire: tolerance must be float or None, not 'x'"),
        (
            {"scope": "cnov"},
            "fire: scope must be 'all' or 'conv' or tuple[str, ...], not 'cnov': did you mean 'conv'?",
        ),
        ({"scope": ("a", 1)}, "fire: scope must be 'all' or 'conv' or tuple[str, ...], not ('a', 1)"),
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
