"""L2-ER: the decay of all parameters, and the climb of the features' effective rank."""

import numpy as np
import pytest
import torch
from torch import nn

from supple.interventions import Learner, learner_for, make
from supple.metrics import effective_rank

RATE, PERIOD = 0.02, 4


def learner(rows: int = 12, unit: type[nn.Module] = nn.Tanh) -> tuple[Learner, torch.Tensor]:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), unit(), nn.Linear(6, 5), unit(), nn.Linear(5, 3)).double()
    inputs = torch.randn(rows, 4, dtype=torch.float64)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    return learner_for(module, optimizer, probe=lambda: (inputs,), loss=lambda: module(inputs).sum()), inputs


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
    return {name: value + RATE * steps.get(name, 0.0) for name, value in values.items()}


@pytest.mark.slow
def test_1000_updates_equal_the_formulas() -> None:
    target, inputs = learner()
    hook = make("l2_er", strength=0.01, rate=RATE, period=PERIOD, steps=2)
    hook.attach(target)
    values = {n: p.detach().numpy().copy() for n, p in target.module.named_parameters()}
    for number in range(1, 1001):
        target.optimizer.zero_grad()
        hook.penalty(target).backward()
        target.optimizer.step()
        hook.after_update(target)
        values = {name: value - 0.05 * 0.01 * value for name, value in values.items()}
        if number % PERIOD == 0:
            values = climb(climb(values, inputs.numpy()), inputs.numpy())
    for name, parameter in target.module.named_parameters():
        np.testing.assert_allclose(parameter.detach().numpy(), values[name], rtol=0, atol=1e-9)


def test_it_raises_the_effective_rank_of_collapsed_features() -> None:
    target, inputs = learner()
    with torch.no_grad():
        target.module[0].weight.copy_(torch.randn(6, 1) * torch.randn(1, 4) + 0.01 * torch.randn(6, 4))
    hook = make("l2_er", strength=0.0, rate=0.1, period=1)
    hook.attach(target)
    before = effective_rank(target.module[:2](inputs))
    for _ in range(50):
        hook.after_update(target)
    assert effective_rank(target.module[:2](inputs)) > before + 1


def test_dead_layers_and_features_of_rank_one_stay_finite() -> None:
    """At a singular value of 0 the rank has no gradient; LAPACK's choice of its vectors must not matter."""
    target, _ = learner(unit=nn.ReLU)
    with torch.no_grad():
        target.module[0].bias.fill_(-100.0)
    before = {n: p.detach().clone() for n, p in target.module.named_parameters()}
    hook = make("l2_er", strength=0.0, period=1)
    hook.attach(target)
    hook.after_update(target)
    assert all(torch.equal(p, before[n]) for n, p in target.module.named_parameters())


@pytest.mark.parametrize(
    ("shape", "stacked", "rows", "columns"),
    [((7, 5), False, 7, 5), ((7, 3, 5), False, 21, 5), ((7, 2, 3, 4), False, 7, 24), ((2, 7, 5), True, 7, 5)],
)
def test_rows_are_inputs_or_tokens(shape: tuple[int, ...], stacked: bool, rows: int, columns: int) -> None:
    from supple.interventions.l2_er import _to_matrix

    assert _to_matrix(torch.zeros(shape), stacked).shape[-2:] == (rows, columns)


def test_without_inputs_nothing_climbs() -> None:
    target, _ = learner()
    target.probe = lambda: None
    before = {n: p.detach().clone() for n, p in target.module.named_parameters()}
    hook = make("l2_er", period=1)
    hook.attach(target)
    hook.after_update(target)
    assert all(torch.equal(p, before[n]) for n, p in target.module.named_parameters())


def test_features_that_are_not_finite_are_left_to_the_run_to_report() -> None:
    target, _ = learner()
    with torch.no_grad():
        target.module[0].bias.fill_(torch.nan)
    before = target.module[2].weight.detach().clone()
    hook = make("l2_er", period=1)
    hook.attach(target)
    hook.after_update(target)
    assert torch.equal(target.module[2].weight, before)


def test_networks_without_hidden_units_are_refused() -> None:
    module = nn.Sequential(nn.Linear(4, 3))
    with pytest.raises(ValueError, match="l2_er: 'model' has no hidden units"):
        make("l2_er").attach(learner_for(module))
