"""A learner's optimizer is one that trains its network."""

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import nn

from supple.networks import Adam, Learner, learner_for
from supple.networks.optimizers import step


def test_a_step_without_bookkeeping_calls_the_hooks_of_the_optimizer() -> None:
    parameter, calls = nn.Parameter(torch.ones(3)), []
    optimizer = Adam([parameter])
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    parameter.grad = torch.ones(3)
    step(optimizer)
    assert calls == [1]
    assert not parameter.eq(1).any()


# -- whose parameters an optimizer holds ----------------------------------------------------------------------


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def test_an_optimizer_of_another_network_is_refused_when_the_learner_is_made() -> None:
    ours = network()
    for other in (network(), copy.deepcopy(ours)):
        with pytest.raises(ValueError, match=r"'critic': the optimizer \(SGD\) holds none of the parameters"):
            learner_for(ours, torch.optim.SGD(other.parameters(), 0.1), name="critic")
    with pytest.raises(ValueError, match="'model': optimizer= should be an optimizer, but is a"):
        learner_for(ours, list(ours.parameters()))  # type: ignore[arg-type]


def test_one_that_holds_more_than_the_network_or_less_if_the_rest_is_frozen_is_accepted_in_silence() -> None:
    actor, critic = network(), network()
    actor[0].requires_grad_(False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for parameters in (actor[2].parameters(), actor.parameters(), [*critic.parameters(), *actor[2].parameters()]):
            optimizer = torch.optim.Adam(parameters)
            assert learner_for(actor, optimizer).optimizer is optimizer
        learner_for(torch.nn.DataParallel(actor), optimizer)


def test_a_layer_that_another_optimizer_trains_or_that_was_replaced_later_is_named() -> None:
    module = network()
    with pytest.warns(UserWarning, match="not hold '2.weight' and 1 more: .* state of another"):
        learner_for(module, torch.optim.Adam(module[0].parameters()))
    optimizer = torch.optim.Adam(module.parameters())
    module[2] = nn.Linear(8, 3)
    with pytest.warns(UserWarning, match="not hold '2.weight' and 1 more") as caught:
        learner_for(module, optimizer)
    assert sum(each.category is UserWarning for each in caught) == 1


def wrapped(package: str, optimizer: torch.optim.Optimizer) -> Any:
    if package == "accelerate":
        return pytest.importorskip("accelerate").Accelerator(cpu=True).prepare(optimizer)
    if package == "fabric":
        return pytest.importorskip("lightning.fabric.wrappers")._FabricOptimizer(optimizer, None)
    return pytest.importorskip("lightning.pytorch.core.optimizer").LightningOptimizer(optimizer)


@pytest.mark.parametrize("package", ["accelerate", "fabric", "lightning"])
def test_wrappers_are_seen_through(package: str) -> None:
    module = network()
    optimizer = torch.optim.NAdam(module.parameters())
    learner: Learner = learner_for(module, wrapped(package, optimizer))
    assert learner.optimizer is optimizer
