"""The zoo notices what it is there to notice: each kind of harm is found."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from tests.zoo.networks import Subject, make, subject, zoo
from tests.zoo.state import differences
from tests.zoo.trials import state_of

pytestmark = pytest.mark.slow


def _replace_parameter(it: Subject) -> None:
    it.module.body[0].weight = nn.Parameter(it.module.body[0].weight.detach().clone())


def _plain_tensor(it: Subject) -> None:
    part = it.module.body[0]
    part._parameters["weight"] = part.weight.detach().clone().requires_grad_()


HARMS: dict[str, Callable[[Subject], object]] = {
    "a bit of a parameter": lambda it: it.module.body[0].bias.data[0].add_(1e-6),
    "a parameter made anew": _replace_parameter,
    "a parameter that is none any longer": _plain_tensor,
    "requires_grad": lambda it: it.module.body[0].weight.requires_grad_(False),
    "a gradient": lambda it: it.module.body[0].weight.grad.zero_(),
    "no gradient": lambda it: setattr(it.module.body[0].weight, "grad", None),
    "a mode": lambda it: it.module.body.eval(),
    "a buffer": lambda it: it.module.register_buffer("more", torch.zeros(1)),
    "an attribute": lambda it: setattr(it.module, "calls", 1),
    "a hook": lambda it: it.module.register_forward_hook(lambda *_: None),
    "a submodule": lambda it: it.module.body.append(nn.ReLU()),
    "an optimizer's slot": lambda it: next(iter(it.learner.optimizer.state.values()))["exp_avg"].zero_(),
    "an optimizer's step": lambda it: next(iter(it.learner.optimizer.state.values()))["step"].add_(1),
    "a learning rate": lambda it: it.learner.optimizer.param_groups[0].update(lr=1.0),
    "the learner's generator": lambda it: torch.rand(1, generator=it.learner.generator),
    "the global generator": lambda it: torch.rand(1),
    "NumPy's generator": lambda it: np.random.rand(),  # noqa: NPY002
    "a mark": lambda it: it.learner.mark(),
    "the inputs": lambda it: it.inputs[0].zero_(),
}


@pytest.mark.parametrize("harm", HARMS)
def test_every_kind_of_harm_is_found(harm: str) -> None:
    it = subject(zoo()["mlp"])
    before = state_of(it)
    assert differences(before, state_of(it)) == []
    with torch.random.fork_rng(devices=[]):
        HARMS[harm](it)
        assert differences(before, state_of(it)) != []


@pytest.mark.parametrize("name", [name for name, kind in zoo().items() if kind.tied])
def test_tied_parameters_are_tied(name: str) -> None:
    module, *_ = make(zoo()[name])
    named = dict(module.named_parameters(remove_duplicate=False))
    assert all(named[first] is named[second] for first, second in zoo()[name].tied)
