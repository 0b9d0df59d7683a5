"""`step` makes the steps of `optimizer.step()`, bit for bit; a learner's optimizer is one that trains its network."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import make
from supple.networks import Learner, learner_for
from supple.networks.optimizers import step

Make = Callable[[Any], torch.optim.Optimizer]


def gradients(parameters: list[nn.Parameter], number: int, missing: bool) -> None:
    draws = torch.Generator().manual_seed(number)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=draws)
    if missing:
        parameters[0].grad = None


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.AdamW(p, 1e-2, (0.8, 0.99), 1e-6, 0.1, fused=True),
        lambda p: torch.optim.Adam(p, 1e-2, fused=True, amsgrad=True),
        lambda p: torch.optim.Adam([{"params": p[:1]}, {"params": p[1:], "lr": 0.1}], fused=True),
        lambda p: torch.optim.Adam(p, foreach=True),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    ],
)
def test_parameters_and_slots_are_those_of_the_optimizers_own_step(make: Make, missing: bool) -> None:
    ours = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 2))
    theirs = copy.deepcopy(ours)
    ends: list[list[Tensor]] = []
    for module, advance in ((ours, step), (theirs, lambda optimizer: optimizer.step())):
        parameters = list(module.parameters())
        optimizer = make(parameters)
        for number in range(5):
            gradients(parameters, number, missing and number < 3)
            optimizer.param_groups[0]["lr"] *= 0.9
            advance(optimizer)
        slots = [slot for parameter in parameters for slot in optimizer.state[parameter].values() if slot is not None]
        ends.append([*parameters, *slots])
    assert len(ends[0]) > 4
    for one, other in zip(*ends, strict=True):
        assert torch.equal(one, other)


def test_hooks_of_the_optimizer_are_called() -> None:
    parameter, calls = nn.Parameter(torch.ones(3)), []
    optimizer = torch.optim.AdamW([parameter], fused=True)
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    for number in range(3):
        gradients([parameter], number, False)
        step(optimizer)
    assert len(calls) == 3


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
    assert len(caught) == 1


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


def test_an_optimizer_that_keeps_tensors_besides_its_state_cannot_be_reset():
    class Lookahead(torch.optim.Adam):
        def __init__(self, parameters: list[nn.Parameter]) -> None:
            super().__init__(parameters)
            self.slow = [p.detach().clone() for p in parameters]

    module = nn.Linear(2, 2)
    learner = learner_for(module, Lookahead(list(module.parameters())))
    with pytest.raises(ValueError, match=r"Lookahead, which keeps tensors besides its state \('slow'\)"):
        make("reset").attach(learner)
