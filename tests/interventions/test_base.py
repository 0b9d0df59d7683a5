"""An intervention has seven moments: the class, its docstring and the page on hooks name the same ones."""

import inspect
import re
from pathlib import Path

import pytest
from torch import nn

from supple.interventions import Intervention, learner_for, make

MOMENTS = ["attach", "before_loss", "penalty", "before_update", "after_update", "finish_task", "apply"]
PAGE = Path(__file__).parents[2] / "docs/concepts/hooks_and_moments.md"


def test_docstring_and_page_name_the_seven_moments_in_their_order() -> None:
    assert re.findall(r"^(\w+)\(learner\)", inspect.getdoc(Intervention) or "", re.MULTILINE) == MOMENTS
    assert re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE) == MOMENTS


def test_each_moment_is_optional_and_a_missing_one_raises_an_error() -> None:
    idle, learner = Intervention(), learner_for(nn.Linear(2, 2))
    idle.attach(learner)
    for moment in MOMENTS:
        assert not idle.has(moment)
        if moment != "attach":
            with pytest.raises(AttributeError):
                getattr(idle, moment)(learner)


@pytest.mark.parametrize(
    ("name", "moments"),
    [
        ("fire", {"attach", "apply"}),
        ("l2_init", {"penalty"}),
        ("ewc", {"attach", "penalty", "finish_task"}),
        ("upgd", {"before_update", "after_update"}),
        ("cbp", {"attach", "after_update"}),
        ("chain", {"attach", "before_loss", "penalty", "before_update", "after_update"}),
    ],
)
def test_an_intervention_has_the_moments_that_it_overrides(name: str, moments: set[str]) -> None:
    assert moments <= {moment for moment in MOMENTS if make(name).has(moment)}
