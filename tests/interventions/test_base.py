"""An intervention has seven moments: the class, its docstring and the page on hooks name the same ones."""

import inspect
import math
import re
from pathlib import Path

import pytest
from torch import nn

from supple.interventions import Intervention, learner_for, make, parse_call
from supple.interventions.base import check_within
from tests.interventions.common import refused

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
    "text",
    [
        *(
            "adamo(strength=-1.0)",
            "cbp(replacement_rate=1.5)",
            "snr(period=0)",
            "chain(share=0.0)",
            "cpr(rate=1.5)",
            "dash(alpha=0.0)",
        ),
        *(
            "ewc(decay=1.5)",
            "hare_tortoise(momentum=1.0)",
            "l2_er(rate=-1.0)",
            "l2_init(strength=-1.0)",
            "muon(lr=0.0)",
        ),
        *("parseval(s=0.0)", "redo(tau=1.0)", "regrama(tau=-0.1)", "replay(keep=1.1)", "reset(what=last,count=0)"),
        *("sib(ratio=0.5)", "snp(lam=1.1)", "soft_snp(epsilon=2.0)", "spectral(power=0)", "muon(lr=0.0)"),
        *("trac(epsilon=1.0)", "upgd(beta=1.0)", "wasserstein(strength=-1.0)", "weight_clip(kappa=0.0)"),
    ],
)
def test_a_value_out_of_range_is_refused_by_its_name(text: str) -> None:
    call = parse_call(text)
    *_, name = call.params
    with refused(rf"^{call.name}: {name} must lie in "):
        make(call.name, **call.params)


def test_only_values_inside_an_interval_pass() -> None:
    check_within("mine", first=(0.0, "[0, 1)"), second=(0.99, "[0, 1)"), third=(None, "[0, 1)"))
    for interval, value in (("[0, 1)", 1.0), ("(0, ∞)", 0.0), ("(0, ∞)", math.inf), ("[0, 1]", math.nan)):
        with refused(re.escape(f"mine: x must lie in {interval}, got {value}")):
            check_within("mine", x=(value, interval))
