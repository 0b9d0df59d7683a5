"""Every intervention keeps frozen parameters, and says which they are."""

import copy
from contextlib import suppress

import pytest
import torch
from torch import nn

from supple.interventions import fire_, interventions, learner_for, make, shrink_perturb_, snapshot

X = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))
PARAMS = {
    "redo": {"tau": 0.9}, "cbp": {"replacement_rate": 0.5, "maturity": 0}, "snr": {"eta": 0.5, "window": 2},
    "regrama": {"tau": 0.9}, "weight_clip": {"kappa": 0.1}, "swap": {"activation": "elu"}, "cpr": {"period": 1},
    "dash": {"batches": 1}, "l2_er": {"period": 1}, "hare_tortoise": {"momentum": 0.5},
}  # fmt: skip
SKIPPED = {"sib", "injection", "chain"}  # they need another kind of learner


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


def run(intervention, subject) -> None:
    """Go through every moment of an intervention."""
    for _ in range(3):
        if intervention.has("before_loss"):
            intervention.before_loss(subject)
        loss = subject.loss()
        if intervention.has("penalty"):
            loss = loss + intervention.penalty(subject)
        subject.optimizer.zero_grad()
        loss.backward()
        if intervention.has("before_update"):
            intervention.before_update(subject)
        subject.optimizer.step()
        if intervention.has("after_update"):
            intervention.after_update(subject)
    if intervention.has("finish_task"):
        intervention.finish_task(subject)
    if intervention.has("apply"):
        intervention.apply(subject)


@pytest.mark.slow
@pytest.mark.parametrize("frozen", [("0.",), ("2.",), ("6.",), ("0.bias", "2.weight")])
@pytest.mark.parametrize("name", sorted(set(interventions.entries) - SKIPPED))
def test_frozen_parameters_are_kept(name, frozen):
    subject = learner(frozen)
    intervention = make(name, **PARAMS.get(name, {}))
    before = {n: p.detach().clone() for n, p in subject.module.named_parameters() if not p.requires_grad}
    with suppress(ValueError):  # refused
        intervention.attach(subject)
        run(intervention, subject)
    after = dict(subject.module.named_parameters())
    assert before
    for n, value in before.items():
        assert torch.equal(after[n], value), n
        assert not after[n].requires_grad


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
