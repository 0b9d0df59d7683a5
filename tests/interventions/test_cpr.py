import numpy as np
import pytest
import torch
from torch import nn

from supple.interventions import Learner, learner_for, make, redraw

PERIOD = 50


def learner() -> Learner:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).double()
    return learner_for(module, torch.optim.SGD(module.parameters(), lr=0.05), seed=7)


def update(target: Learner, cpr, x: torch.Tensor) -> None:
    target.optimizer.zero_grad()
    target.module(x).sin().square().mean().backward()
    cpr.before_update(target)
    target.optimizer.step()
    cpr.after_update(target)


def share(utility: np.ndarray, rate: float) -> np.ndarray:
    return rate * np.minimum(1.0, 2 / (1 + np.exp(16 * (utility - 1))))


@pytest.mark.slow
def test_1000_updates_equal_the_formulas() -> None:
    target, cpr = learner(), make("cpr", rate=0.3, period=PERIOD)
    cpr.attach(target)
    draws, source = torch.Generator().manual_seed(7), torch.Generator().manual_seed(2)
    values = {n: p.detach().numpy().copy() for n, p in target.module.named_parameters()}
    utility = {"0": np.ones(6), "2": np.ones(5)}
    moved = 0.0
    for number in range(1, 1001):
        update(target, cpr, torch.randn(8, 4, generator=source, dtype=torch.float64))
        gradients = {n: p.grad.numpy() for n, p in target.module.named_parameters()}
        for layer, old in utility.items():
            magnitude = np.abs(gradients[f"{layer}.weight"]).mean(1)
            utility[layer] = 0.99 * old + 0.01 * magnitude / (magnitude.mean() + 1e-8)
        for name in values:
            values[name] = values[name] - 0.05 * gradients[name]
        if number % PERIOD == 0:
            fresh = {name: value.numpy() for name, value in redraw(target.module, draws).items()}
            for layer, following in (("0", "2"), ("2", "4")):
                p = share(utility[layer], 0.3)
                moved = max(moved, p.max() - p.min())
                weight = values[f"{layer}.weight"]
                values[f"{layer}.weight"] = (1 - p)[:, None] * weight + p[:, None] * fresh[f"{layer}.weight"]
                values[f"{following}.weight"] = values[f"{following}.weight"] * (1 - p)
                utility[layer] = np.ones_like(p)
        for name, parameter in target.module.named_parameters():
            np.testing.assert_allclose(parameter.detach().numpy(), values[name], rtol=0, atol=1e-11)
    assert moved > 0.2  # units were told apart
