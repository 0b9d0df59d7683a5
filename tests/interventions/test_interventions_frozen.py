"""Every intervention keeps frozen parameters, and says which they are."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from supple.interventions import fire_, make, shrink_perturb_, snapshot
from tests.interventions.common import changed, refused
from tests.interventions.common import learner as learner_of
from tests.zoo.networks import zoo
from tests.zoo.trials import VARIANTS, intervened


def learner():
    parts = (lambda: nn.Linear(4, 4)), nn.ReLU
    return learner_of(lambda: nn.Sequential(*(part() for _ in range(4) for part in parts)), x=torch.ones(2, 4))


@pytest.mark.slow
@pytest.mark.parametrize("names", [("head.2.",), ("body.0.bias", "head.0.weight")])
@pytest.mark.parametrize("text", VARIANTS)
def test_frozen_parameters_are_kept(text, names):
    def new():
        module, x = zoo()["mlp"].new()
        for name, p in module.named_parameters():
            p.requires_grad_(not name.startswith(names))
        return module, x

    outcome = intervened(replace(zoo()["mlp"], new=new, silent=False), text)
    assert outcome.kind != "broken", outcome


@pytest.mark.parametrize("name", ["fire", "reset", "snp", "redo", "hare_tortoise"])
def test_the_contract_says_which_were_kept(name):
    target = learner()
    assert "frozen parameters" not in make(name).contract(target)
    target.module[2].requires_grad_(False)
    assert make(name).contract(target)["frozen parameters"] == "kept: 2.weight, 2.bias"


def test_functions_keep_frozen_parameters_unless_they_are_named():
    module = learner().module
    module[2].requires_grad_(False)
    before = snapshot(module)
    start = {name: torch.zeros_like(value) for name, value in before.items()}
    assert "2.weight" not in fire_(module)
    assert "2.weight" not in shrink_perturb_(module, start)
    assert not {"2.weight", "2.bias"} & changed(module, before)
    assert shrink_perturb_(module, start, names=["2.weight"]) == ["2.weight"]
    with refused("every parameter is frozen"):
        shrink_perturb_(module.requires_grad_(False), start)
