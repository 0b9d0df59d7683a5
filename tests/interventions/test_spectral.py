import numpy as np
import pytest
import torch
from torch import nn

from supple.interventions import Layer, learner_for, make, snapshot
from tests.interventions.common import disturb, learner, normed, update


def largest(weight: torch.Tensor) -> float:
    return float(torch.linalg.matrix_norm(weight.detach(), 2))


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2])
def test_each_of_200_updates_equals_the_formulas(k):
    """Both start each update from the same state. When another singular value becomes the largest, the iteration turns
    to its vector from rounding errors, which differ."""
    target, spectral = disturb(learner(normed, lr=0.01)), make("spectral", strength=0.1, power=k)
    spectral.penalty(target)  # begins the iteration
    known = spectral.state_dict()["model"]
    for _ in range(200):
        values = {name: value.numpy() for name, value in snapshot(target.module).items()}
        old = {name: vectors["right"].numpy().copy() for name, vectors in known.items()}
        update(target, spectral, alone=True)
        for name, x in values.items():
            if x.ndim == 2:
                v = x.T @ (x @ old[name])
                v /= np.linalg.norm(v)
                np.testing.assert_allclose(known[name]["right"].numpy(), v, rtol=0, atol=1e-13)
                sigma = np.linalg.norm(x @ v)
                gradient = 2 * (sigma**k - 1) * k * sigma ** (k - 1) * np.outer(x @ v / sigma, v)
            elif name == "1.weight":
                gradient = 2 * (x**k - 1) * k * x ** (k - 1)
            elif name == "1.bias":
                gradient = 2 * k * x ** (2 * k - 1)
            else:
                gradient = 2 * k * (x @ x) ** (k - 1) * x
            now = target.module.get_parameter(name).detach().numpy()
            np.testing.assert_allclose(now, x - 0.01 * 0.1 * gradient, rtol=0, atol=1e-14)


@pytest.mark.slow
def test_it_brings_largest_singular_values_to_1_and_biases_to_0_but_a_zero_matrix_only_once_it_has_grown():
    target, spectral = disturb(learner(normed, lr=0.02)), make("spectral", strength=1.0)
    weight = target.module[3].weight
    with torch.no_grad():
        weight.zero_()
    update(target, spectral, alone=True)
    assert not weight.any()
    with torch.no_grad():
        weight[0, 0] = 0.5
    update(target, spectral, 1000, alone=True)
    for layer in target.layers:
        assert largest(layer.weight) == pytest.approx(1.0, abs=1e-3)
        assert float(layer.module.bias.detach().norm()) < 0.2
    torch.testing.assert_close(target.module[1].weight.detach().abs(), torch.ones(8).double(), rtol=0, atol=1e-3)


@pytest.mark.slow
def test_the_iteration_follows_the_weights_that_training_moves():
    """While another loss moves the weights, the penalty is that of their true singular values, nearly."""
    target, spectral = disturb(learner(normed, lr=0.01)), make("spectral", strength=1e-3)
    update(target, spectral, 300)
    rest = sum(float(layer.module.bias.detach().square().sum()) ** 2 for layer in target.layers)
    norm = target.module[1]
    gains = float((norm.weight.detach().square() - 1).square().sum() + norm.bias.detach().pow(4).sum())
    expected = sum((largest(layer.weight) ** 2 - 1) ** 2 for layer in target.layers) + rest + gains
    assert spectral.penalty(target).item() == pytest.approx(1e-3 * expected, rel=1e-4)


def test_kernels_and_the_parts_of_a_fused_layer_are_matrices():
    torch.manual_seed(0)
    conv, fused = nn.Conv2d(2, 3, 2, bias=False).double(), nn.Linear(4, 6, bias=False).double()
    layers = (Layer("0", conv, "encoder", 0), Layer("1", fused, "hidden", 1, part="qkv", split=3))
    target, spectral = learner_for(nn.Sequential(conv, fused), layers=layers), make("spectral", strength=1.0)
    for _ in range(300):  # the weights stay, the iteration goes on
        penalty = spectral.penalty(target)
    matrices = [conv.weight.detach().flatten(1), *fused.weight.detach().split(2)]
    assert penalty.item() == pytest.approx(sum((largest(matrix) ** 2 - 1) ** 2 for matrix in matrices), rel=1e-6)
