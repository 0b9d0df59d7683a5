"""L2-ER: the decay of all parameters, and the climb of the features' effective rank."""

import numpy as np
import pytest
import torch
from torch import nn

from supple.interventions import Learner, make, snapshot
from supple.interventions.l2_er import _to_matrix
from supple.metrics import effective_rank
from tests.interventions.common import X, changed, update
from tests.interventions.common import learner as learner_of


def learner(unit: type[nn.Module] = nn.Tanh) -> Learner:
    return learner_of(lambda: nn.Sequential(nn.Linear(4, 6), unit(), nn.Linear(6, 5), unit(), nn.Linear(5, 4)).double())


def slope(features: np.ndarray) -> np.ndarray:
    """Return the gradient of exp(−Σ p·log p) with respect to the features, from the definition."""
    u, s, vt = np.linalg.svd(features, full_matrices=False)
    p = s / s.sum()
    entropy = -(p * np.log(p)).sum()
    return u * (-np.exp(entropy) / s.sum() * (np.log(p) + entropy)) @ vt


def climb(values: dict[str, np.ndarray], x: np.ndarray) -> dict[str, np.ndarray]:
    """Return the parameters after a step along the mean slope of two tanh layers, by backpropagation by hand."""
    first = np.tanh(x @ values["0.weight"].T + values["0.bias"])
    second = np.tanh(first @ values["2.weight"].T + values["2.bias"])
    at_second = slope(second) / 2 * (1 - second**2)
    at_first = (slope(first) / 2 + at_second @ values["2.weight"]) * (1 - first**2)
    steps = {"0.weight": at_first.T @ x, "0.bias": at_first.sum(0),
             "2.weight": at_second.T @ first, "2.bias": at_second.sum(0)}  # fmt: skip
    return {name: value + 0.02 * steps.get(name, 0.0) for name, value in values.items()}


@pytest.mark.slow
def test_400_updates_equal_the_formulas():
    target, hook = learner(), make("l2_er", strength=0.01, rate=0.02, period=4, steps=2)
    hook.attach(target)
    values = {name: value.numpy() for name, value in snapshot(target.module).items()}
    for number in range(1, 401):
        update(target, hook, alone=True)
        values = {name: value - 0.05 * 0.01 * value for name, value in values.items()}
        if number % 4 == 0:
            values = climb(climb(values, X.numpy()), X.numpy())
    for name, parameter in target.module.named_parameters():
        np.testing.assert_allclose(parameter.detach().numpy(), values[name], rtol=0, atol=1e-9)


def test_it_raises_the_effective_rank_of_collapsed_features():
    target, hook = learner(), make("l2_er", strength=0.0, rate=0.1, period=1)
    with torch.no_grad():
        target.module[0].weight.copy_(torch.randn(6, 1) * torch.randn(1, 4) + 0.01 * torch.randn(6, 4))
    hook.attach(target)
    before = effective_rank(target.module[:2](X))
    for _ in range(50):
        hook.after_update(target)
    assert effective_rank(target.module[:2](X)) > before + 1


@pytest.mark.parametrize(("bias", "inputs"), [(-100.0, (X,)), (torch.nan, (X,)), (0.0, None)], ids=str)
def test_dead_layers_features_that_are_not_finite_and_no_inputs_move_nothing(bias, inputs):
    """At a singular value of 0 the rank has no gradient; LAPACK's choice of its vectors must not matter."""
    target, hook = learner(nn.ReLU), make("l2_er", strength=0.0, period=1)
    nn.init.constant_(target.module[0].bias, bias)
    target.probe = lambda: inputs
    before = snapshot(target.module)
    hook.attach(target)
    hook.after_update(target)
    assert changed(target.module, before) <= ({"0.bias"} if bias != bias else set())  # NaN differs from itself


@pytest.mark.parametrize(
    ("shape", "stacked", "convolution", "rows", "columns"),
    [
        ((7, 3, 5), False, False, 21, 5), ((7, 3, 5), False, True, 7, 15), ((7, 2, 3, 4), False, True, 7, 24),
        ((2, 7, 5), True, False, 7, 5),
    ],
)  # fmt: skip
def test_rows_are_inputs_or_tokens(shape, stacked, convolution, rows, columns):
    assert _to_matrix(torch.zeros(shape), stacked, convolution).shape[-2:] == (rows, columns)


@pytest.mark.parametrize("activation", [nn.ReLU, nn.GELU])
def test_a_dead_layer_leaves_no_nan_in_the_others(activation):
    target, hook = learner(activation), make("l2_er", strength=0.0, period=1)
    nn.init.constant_(target.module[2].bias, -300.0)
    before = snapshot(target.module)
    hook.attach(target)
    hook.after_update(target)
    assert all(parameter.isfinite().all() for parameter in target.module.parameters())
    assert changed(target.module, before) == {"0.weight", "0.bias"}  # the layer before climbs its own rank
