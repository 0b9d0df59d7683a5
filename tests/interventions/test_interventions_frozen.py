"""Every intervention keeps frozen parameters, and says which they are."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from supple.interventions import fire_, learner_for, make, shrink_perturb_, snapshot
from tests.zoo.networks import zoo
from tests.zoo.trials import VARIANTS, intervened

X = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))


def learner(frozen: tuple[str, ...]):
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)
    )
    for name, p in module.named_parameters():
        p.requires_grad_(not name.startswith(frozen))
    follower = copy.deepcopy(module).requires_grad_(False)
    optimizer = torch.optim.Adam([p for p in module.parameters() if p.requires_grad], lr=0.05)

    def batches(count):
        yield (module(X) - 1).square().mean(1)

    return learner_for(
        module, optimizer, probe=lambda: (X,), loss=lambda: (module(X) - 1).square().mean(), batches=batches,
        followers=(follower,),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("names", [("body.0.",), ("head.0.",), ("head.2.",), ("body.0.bias", "head.0.weight")])
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
    row = make(name).contract(learner(("2.",)))
    assert row["frozen parameters"] == "kept: 2.weight, 2.bias"
    assert "frozen parameters" not in make(name).contract(learner(("nothing",)))


def test_a_whole_frozen_scope_is_refused_at_the_start():
    subject = learner(("6.",))
    for name, params in (("reset", {"what": "head"}), ("snp", {"scope": "head"}), ("fire", {"scope": "head"})):
        with pytest.raises(ValueError, match="frozen"):
            make(name, **params).attach(subject)


def test_functions_keep_frozen_parameters_unless_they_are_named():
    module = learner(("2.",)).module
    start = {name: torch.zeros_like(value) for name, value in snapshot(module).items()}
    frozen = module[2].weight.detach().clone()
    assert "2.weight" not in fire_(module)
    assert "2.weight" not in shrink_perturb_(module, start)
    assert torch.equal(module[2].weight, frozen)
    assert shrink_perturb_(module, start, names=["2.weight"]) == ["2.weight"]
    with pytest.raises(ValueError, match="every parameter is frozen"):
        shrink_perturb_(module.requires_grad_(False), start)


def test_a_target_network_is_written_although_all_of_it_is_frozen():
    subject = learner(("2.",))
    (follower,) = subject.followers
    make("reset").apply(subject)
    assert all(torch.equal(a, b) for a, b in zip(subject.module.parameters(), follower.parameters(), strict=True))
