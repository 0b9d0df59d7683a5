import numpy as np
import pytest
import torch
from torch import nn

from supple.interventions import Layer, Learner, learner_for, make


def learner() -> Learner:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 2)).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.5)
    return learner_for(module, torch.optim.SGD(module.parameters(), lr=0.01))


def update(target: Learner, spectral) -> None:
    target.optimizer.zero_grad()
    spectral.penalty(target).backward()
    target.optimizer.step()


class ByHand:
    """The penalty's gradient steps, with the power iteration written out, in NumPy."""

    def __init__(self, strength: float, power: int) -> None:
        self.strength, self.power = strength, power

    def begin(self, target: Learner, spectral) -> None:
        """Go on from where these are."""
        self.values = {n: p.detach().numpy().copy() for n, p in target.module.named_parameters()}
        known = spectral.state_dict()["model"]
        self.v = {name: vectors["right"].numpy().copy() for name, vectors in known.items()}

    def step(self) -> None:
        k, lam = self.power, self.strength
        for name, v in self.v.items():
            v = self.values[name].T @ (self.values[name] @ v)
            self.v[name] = v / np.linalg.norm(v)
        for name, x in self.values.items():
            if x.ndim == 2:
                sigma = np.linalg.norm(x @ self.v[name])
                u = x @ self.v[name] / sigma
                gradient = 2 * (sigma**k - 1) * k * sigma ** (k - 1) * np.outer(u, self.v[name])
            elif name == "1.weight":
                gradient = 2 * (x**k - 1) * k * x ** (k - 1)
            elif name == "1.bias":
                gradient = 2 * k * x ** (2 * k - 1)
            else:
                gradient = 2 * k * (x @ x) ** (k - 1) * x
            x -= 0.01 * lam * gradient


@pytest.mark.slow
@pytest.mark.parametrize("power", [1, 2])
def test_each_of_1000_updates_equals_the_formulas(power: int) -> None:
    """Both start each update from the same state. When another singular value becomes the largest, the iteration turns
    to its vector from rounding errors, which differ."""
    target, spectral = learner(), make("spectral", strength=0.1, power=power)
    spectral.penalty(target)  # begins the iteration
    reference = ByHand(0.1, power)
    for _ in range(1000):
        reference.begin(target, spectral)
        update(target, spectral)
        reference.step()
        for name, parameter in target.module.named_parameters():
            np.testing.assert_allclose(parameter.detach().numpy(), reference.values[name], rtol=0, atol=1e-14)
        for name, vectors in spectral.state_dict()["model"].items():
            np.testing.assert_allclose(vectors["right"].numpy(), reference.v[name], rtol=0, atol=1e-13)


@pytest.mark.slow
def test_it_brings_every_layer_to_a_largest_singular_value_of_1_and_biases_to_0() -> None:
    target, spectral = learner(), make("spectral", strength=1.0)
    for _ in range(2000):
        update(target, spectral)
    for layer in target.layers:
        assert float(torch.linalg.matrix_norm(layer.weight.detach(), 2)) == pytest.approx(1.0, abs=1e-3)
        assert float(layer.module.bias.detach().norm()) < 0.2
    torch.testing.assert_close(target.module[1].weight.detach().abs(), torch.ones(8).double(), rtol=0, atol=1e-3)


@pytest.mark.slow
def test_the_iteration_follows_the_weights_that_training_moves() -> None:
    """While another loss moves the weights, the penalty is that of their true singular values, nearly."""
    target, spectral = learner(), make("spectral", strength=1e-3)
    source = torch.Generator().manual_seed(3)
    for _ in range(300):
        x = torch.randn(16, 4, generator=source, dtype=torch.float64)
        target.optimizer.zero_grad()
        (target.module(x).square().mean() + spectral.penalty(target)).backward()
        target.optimizer.step()
    sigma = [float(torch.linalg.matrix_norm(layer.weight.detach(), 2)) for layer in target.layers]
    rest = [float(layer.module.bias.detach().square().sum()) ** 2 for layer in target.layers]
    norm = target.module[1]
    gains = float((norm.weight.detach().square() - 1).square().sum() + norm.bias.detach().pow(4).sum())
    expected = 1e-3 * (sum((matrix**2 - 1) ** 2 for matrix in sigma) + sum(rest) + gains)
    assert spectral.penalty(target).item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
def test_a_zero_matrix_has_no_gradient_until_it_has_grown() -> None:
    target, spectral = learner(), make("spectral", strength=1.0)
    weight = target.module[3].weight
    with torch.no_grad():
        weight.zero_()
    update(target, spectral)
    assert torch.equal(weight, torch.zeros_like(weight))
    with torch.no_grad():
        weight[0, 0] = 0.5
    for _ in range(1500):
        update(target, spectral)
    assert float(torch.linalg.matrix_norm(weight.detach(), 2)) == pytest.approx(1.0, abs=1e-3)


def test_kernels_and_the_parts_of_a_fused_layer_are_matrices() -> None:
    torch.manual_seed(0)
    conv, fused = nn.Conv2d(2, 3, 2, bias=False).double(), nn.Linear(4, 6, bias=False).double()
    module = nn.Sequential(conv, fused)
    layers = (Layer("0", conv, "encoder", 0), Layer("1", fused, "hidden", 1, part="qkv", split=3))
    target = learner_for(module, None, layers=layers)
    spectral = make("spectral", strength=1.0)
    for _ in range(300):  # the weights stay, the iteration goes on
        spectral.penalty(target)
    matrices = [conv.weight.detach().flatten(1), *fused.weight.detach().split(2)]
    expected = sum((float(torch.linalg.matrix_norm(matrix, 2)) ** 2 - 1) ** 2 for matrix in matrices)
    assert spectral.penalty(target).item() == pytest.approx(expected, rel=1e-6)


def test_parameters_that_are_not_trained_are_not_penalised() -> None:
    target = learner()
    target.module.requires_grad_(False)
    with pytest.raises(ValueError, match="spectral: no layer of 'model' is trained"):
        make("spectral").attach(target)
