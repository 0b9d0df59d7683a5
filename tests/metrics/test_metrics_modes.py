"""Measurements do not depend on the mode of the caller, and change nothing, whatever probe and loss do."""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from supple.metrics import diagnose, measure, trainability
from supple.networks import learner_for
from tests.zoo.networks import Calls
from tests.zoo.state import differences, take

X = torch.randn(16, 6, generator=torch.Generator().manual_seed(0))


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))


def learner_of(module: nn.Module, **more: Any):
    settings = {"probe": lambda: (X,), "loss": lambda: module(X).square().mean()} | more
    return learner_for(module, torch.optim.Adam(module.parameters()), **settings)


def numbers(learner) -> list[float]:
    return [*measure(learner, costly=True).values(), diagnose(learner, updates=3).loss]


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode", [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16)],
    ids=["no_grad", "inference_mode", "autocast"],
)  # fmt: skip
def test_metrics_do_not_depend_on_the_mode_of_the_caller(mode: Callable[[], AbstractContextManager]) -> None:
    learner = learner_of(network())
    outside = numbers(learner)
    with mode():
        assert numbers(learner) == outside


def test_inputs_may_be_made_in_inference_mode() -> None:
    with torch.inference_mode():
        made = X.clone()
    learner = learner_of(copy.deepcopy(network()), probe=lambda: (made,))
    assert numbers(learner) == numbers(learner_of(network()))


def draw_inputs(source: str) -> Tensor:
    return X[torch.randint(16, (8,))] if source == "torch" else X[np.random.choice(16, 8)]  # noqa: NPY002


@pytest.mark.parametrize("source", ["torch", "numpy"])
def test_draws_of_probe_and_loss_do_not_move_the_generators(source: str) -> None:
    module = network()
    learner = learner_of(
        module, probe=lambda: (draw_inputs(source),), loss=lambda: module(draw_inputs(source)).square().mean()
    )
    before = take(module, optimizer=learner.optimizer)
    numbers(learner)
    assert differences(before, take(module, optimizer=learner.optimizer)) == []


def test_diagnosing_between_a_pass_and_its_backward_does_not_break_it() -> None:
    module = network()
    learner = learner_of(module)
    loss = module(X).square().mean()
    expected = torch.autograd.grad(loss, list(module.parameters()), retain_graph=True)
    diagnose(learner, updates=2)
    loss.backward()
    assert all(torch.equal(p.grad, g) for p, g in zip(module.parameters(), expected, strict=True))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"loss": lambda: 1.0}, "loss= of 'model' must return one number as a tensor, but returns a float"),
        ({"loss": lambda: torch.zeros(4)}, r"returns a tensor \(4,\)"),
        ({"loss": lambda: torch.zeros(())}, "returns a number without a gradient"),
        ({"probe": X}, "probe= and loss= must be functions"),
        ({"probe": lambda: X[:1]}, r"such as \(x,\), but returns a Tensor"),
        ({"probe": lambda: {"input": X}}, "returns a dict .* forward="),
    ],
)
def test_a_loss_that_is_not_one_number_and_a_probe_that_is_no_tuple_of_inputs_are_refused(given, message) -> None:
    with pytest.raises(ValueError, match=message):
        measure(learner_of(network(), **given))


def network_with(of: Callable[[Tensor], Any]) -> Calls:
    """A network that returns what `of` makes of its outputs."""
    return Calls(lambda self, x: of(self.net(x)), net=network())


def test_networks_that_cannot_be_fitted_are_refused_in_one_line() -> None:
    categorical = network_with(lambda y: torch.distributions.Categorical(logits=y))
    loss = {"loss": lambda: categorical(X).logits.square().mean()}
    with pytest.raises(ValueError, match="returns a Categorical without a tensor of real numbers"):
        trainability(learner_of(categorical, **loss), updates=1)
    other = network()
    with pytest.raises(ValueError, match="the parameters of 'model' have no part in its outputs"):
        trainability(learner_of(network(), forward=lambda _, x: other(x) + 0 * other(x).detach()), updates=1)


def test_a_scalar_among_the_outputs_is_left_out() -> None:
    plain, module = network(), network_with(lambda y: (y, y.norm()))
    learner = learner_of(module, loss=lambda: module(X)[0].square().mean())
    assert trainability(learner, updates=2) == trainability(learner_of(plain), updates=2)


def test_parameters_in_a_list_are_fitted_as_any_others() -> None:
    def forward(self: nn.Module, x: Tensor) -> Tensor:
        w, b, v, c = self.all
        return nn.functional.linear(nn.functional.linear(x, w, b).relu(), v, c)

    module = Calls(forward, net=network())
    module.all = list(module.parameters())
    kept = list(module.all)
    assert trainability(learner_of(module), updates=3) == trainability(learner_of(network()), updates=3)
    assert all(a is b for a, b in zip(module.all, kept, strict=True))


def test_float16_is_fitted_in_float32() -> None:
    module = network().half()
    fit = trainability(learner_of(module, probe=lambda: (X.half(),)), updates=20)
    exact = trainability(learner_of(network()), updates=20)
    torch.testing.assert_close(fit.loss, exact.loss, atol=0.02, rtol=0)
