"""Trying out an intervention: the loss that it leads to, and the network restored."""

import pytest
import torch
from torch import nn

from supple.experiments.conformance import copy_tensors, differing_names, named_tensors
from supple.experiments.loss_after import loss_after
from supple.interventions import Learner, learner_for, make
from supple.metrics import trainability

X = torch.randn(64, 5, generator=torch.Generator().manual_seed(1))


def learner() -> Learner:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    target = learner_for(
        module, torch.optim.Adam(module.parameters()), probe=lambda: (X,), loss=lambda: module(X).square().mean()
    )
    with torch.no_grad():
        module[2].bias.fill_(-100.0)
    return target


def test_it_returns_the_loss_of_a_network_after_the_intervention() -> None:
    target, twin = learner(), learner()
    twin.optimizer = None
    make("redo").apply(twin)
    fit = trainability(twin, 20)
    assert fit is not None
    assert loss_after(target, make("redo"), 20) == float(fit.loss)


@pytest.mark.parametrize("name", ["fire", "snp", "redo", "reset"])
def test_network_optimizer_and_generators_are_restored(name: str) -> None:
    target = learner()
    assert target.optimizer is not None
    target.loss().backward()
    target.optimizer.step()
    optimizer, followers, tensors = target.optimizer, target.followers, named_tensors(target)
    before, draws = copy_tensors(tensors), target.generator.get_state()
    pointers = [p.data_ptr() for p in target.module.parameters()]
    loss_after(target, make(name), 2)
    assert target.optimizer is optimizer
    assert target.followers is followers
    assert [p.data_ptr() for p in target.module.parameters()] == pointers
    assert differing_names(before, named_tensors(target)) == []
    assert torch.equal(target.generator.get_state(), draws)


@pytest.mark.parametrize("name", ["l2_init", "muon", "injection", "hare_tortoise"])
def test_interventions_that_do_more_than_rewrite_weights_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} cannot be tried out"):
        loss_after(learner(), make(name), 2)
