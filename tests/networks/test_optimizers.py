"""`step` makes the steps of `optimizer.step()`, bit for bit, whatever the optimizer."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

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
        lambda p: torch.optim.Adam(p, 1e-2, (0.8, 0.99), 1e-6, 0.1, fused=True),
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
