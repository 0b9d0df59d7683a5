import numpy as np
import pytest
import torch
from torch import nn

from supple.interventions import make, redraw, snapshot
from tests.interventions.common import learner, update


def three_layers() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4)).double()


@pytest.mark.slow
def test_300_updates_equal_the_formulas():
    target, cpr = learner(three_layers), make("cpr", rate=0.3, period=50)
    cpr.attach(target)
    draws, moved = torch.Generator().manual_seed(0), 0.0
    values = {name: value.numpy() for name, value in snapshot(target.module).items()}
    utility = {"0": np.ones(6), "2": np.ones(5)}
    for number in range(1, 301):
        update(target, cpr)
        gradients = {n: p.grad.numpy() for n, p in target.module.named_parameters()}
        for layer, old in utility.items():
            magnitude = np.abs(gradients[f"{layer}.weight"]).mean(1)
            utility[layer] = 0.99 * old + 0.01 * magnitude / (magnitude.mean() + 1e-8)
        values = {name: value - 0.05 * gradients[name] for name, value in values.items()}
        if number % 50 == 0:
            fresh = {name: value.numpy() for name, value in redraw(target.module, draws).items()}
            for layer, following in (("0", "2"), ("2", "4")):
                p = 0.3 * np.minimum(1.0, 2 / (1 + np.exp(16 * (utility[layer] - 1))))
                moved = max(moved, p.max() - p.min())
                weight = values[f"{layer}.weight"]
                values[f"{layer}.weight"] = (1 - p)[:, None] * weight + p[:, None] * fresh[f"{layer}.weight"]
                values[f"{following}.weight"] = values[f"{following}.weight"] * (1 - p)
                utility[layer] = np.ones_like(p)
        for name, parameter in target.module.named_parameters():
            np.testing.assert_allclose(parameter.detach().numpy(), values[name], rtol=0, atol=1e-11)
    assert moved > 0.2  # units were told apart
