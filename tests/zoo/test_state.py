"""The zoo notices what it is there to notice: each kind of harm is found."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.zoo.networks import Subject, subject, zoo
from tests.zoo.state import differences

pytestmark = pytest.mark.slow


HARMS: dict[str, Callable[[Subject], object]] = {
    "a bit of a parameter": lambda it: it.module.body[0].bias.data[0].add_(1e-6),
    "a parameter made anew": lambda it: setattr(it.module.body[0], "weight", nn.Parameter(it.module.body[0].weight)),
    "requires_grad": lambda it: it.module.body[0].weight.requires_grad_(False),
    "a gradient": lambda it: it.module.body[0].weight.grad.zero_(),
    "a mode": lambda it: it.module.body.eval(),
    "a buffer": lambda it: it.module.register_buffer("more", torch.zeros(1)),
    "an attribute": lambda it: setattr(it.module, "calls", 1),
    "a hook": lambda it: it.module.register_forward_hook(lambda *_: None),
    "an optimizer's slot": lambda it: next(iter(it.learner.optimizer.state.values()))["step"].add_(1),
    "the learner's generator": lambda it: torch.rand(1, generator=it.learner.generator),
    "the global generator": lambda it: torch.rand(1),
    "the inputs": lambda it: it.inputs[0].zero_(),
}


@pytest.mark.parametrize("harm", HARMS)
def test_every_kind_of_harm_is_found(harm: str) -> None:
    it = subject(zoo()["mlp"])
    before = it.state()
    assert differences(before, it.state()) == []
    with torch.random.fork_rng(devices=[]):
        HARMS[harm](it)
        assert differences(before, it.state()) != []
