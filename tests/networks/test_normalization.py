"""Layer and spectral normalisation of hidden layers, and what interventions make of them."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from supple.interventions import Learner, learner_for, make, redraw, snapshot
from supple.networks import (
    SpectralLinear,
    StackedSpectralLinear,
    evaluating,
    hidden_linear,
    hidden_norm,
    record,
)

X = torch.randn(16, 4, generator=torch.Generator().manual_seed(5))


def network(normalization: str) -> nn.Sequential:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for d_in, d_out in ((4, 8), (8, 8)):
        layers += [hidden_linear(d_in, d_out, normalization), *hidden_norm(d_out, normalization), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(8, 2))


def learner(normalization: str) -> Learner:
    net = network(normalization)
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    found = learner_for(net, optimizer, probe=lambda: (X,), loss=lambda: net(X).square().mean())
    for _ in range(3):
        update(found)
    return found


def update(learner: Learner) -> None:
    assert learner.optimizer
    learner.optimizer.zero_grad()
    learner.loss().backward()
    learner.optimizer.step()


def matrix(layer: SpectralLinear) -> Tensor:
    """The map that a layer computes, but for its bias, (d_out, d_in)."""
    eye = torch.eye(layer.in_features, dtype=layer.weight.dtype)
    return (layer(eye) - layer(torch.zeros_like(eye))).mT.detach()


def norm(weight: Tensor) -> Tensor:
    return torch.linalg.svdvals(weight)[0]


# -- layer normalisation -------------------------------------------------------------------------------------------


def test_layer_normalization_is_torchs_before_the_activation() -> None:
    net = network("layer")
    assert [type(part).__name__ for part in net] == ["Linear", "LayerNorm", "ReLU"] * 2 + ["Linear"]
    hidden = F.layer_norm(net[0](X), (8,), net[1].weight, net[1].bias).relu()
    torch.testing.assert_close(net[:3](X), hidden, rtol=0, atol=0)


# -- spectral normalisation ----------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=30)
@given(st.integers(1, 12), st.integers(1, 12), st.floats(1e-3, 1e3), st.integers(0, 1000))
def test_the_largest_singular_value_becomes_one(d_in: int, d_out: int, scale: float, seed: int) -> None:
    torch.manual_seed(seed)
    layer = SpectralLinear(d_in, d_out, bias=False).double()
    with torch.no_grad():
        layer.weight.mul_(scale)
    first = norm(matrix(layer.eval()))
    layer.train()
    for _ in range(300):
        layer(torch.zeros(1, d_in, dtype=torch.float64)).sum()
    computed = matrix(layer)
    torch.testing.assert_close(computed, layer.weight / norm(layer.weight), rtol=1e-2, atol=1e-2)
    assert 1 - 1e-9 <= norm(computed) <= 1.01
    assert first >= 1 - 1e-9  # the estimate is never above σ


def test_a_fresh_draw_is_nearly_normalized_at_once() -> None:
    torch.manual_seed(0)
    for d_in, d_out in ((64, 64), (3, 128), (128, 3)):
        assert 1 - 1e-6 <= norm(matrix(SpectralLinear(d_in, d_out, bias=False).eval())) < 1.5


def test_gradients_are_those_of_dividing_by_the_largest_singular_value() -> None:
    torch.manual_seed(0)
    layer = SpectralLinear(4, 8).double()
    x = X.double()
    for _ in range(500):
        layer(x)
    weight = layer.weight.detach().clone().requires_grad_()
    (expected,) = torch.autograd.grad(F.linear(x, weight / norm(weight), layer.bias).square().sum(), weight)
    (gradient,) = torch.autograd.grad(layer(x).square().sum(), layer.weight)
    torch.testing.assert_close(gradient, expected)


def test_each_member_of_a_stack_is_divided_by_its_own() -> None:
    torch.manual_seed(0)
    stack = hidden_linear(4, 8, "spectral", 3)
    assert isinstance(stack, StackedSpectralLinear)
    alone = SpectralLinear(4, 8)
    outputs = [stack(X) for _ in range(3)]
    for member in range(3):
        alone.reset_running_stats()
        with torch.no_grad():
            alone.weight.copy_(stack.weight[member])
            alone.bias.copy_(stack.bias[member])
        for output in outputs:
            torch.testing.assert_close(output[member], alone(X))
        torch.testing.assert_close(stack.u[member], alone.u)


def test_only_a_pass_that_trains_the_layer_updates_the_estimate() -> None:
    net = network("spectral")
    before = net[0].u.clone()
    with torch.no_grad():
        net(X)
    with evaluating(net):
        net(X).sum().backward()
    record(net, ["2"], (X,))
    net.requires_grad_(False)
    net(X.clone().requires_grad_()).sum().backward()
    assert torch.equal(net[0].u, before)
    net.requires_grad_(True)
    net(X)
    assert not torch.equal(net[0].u, before)
    other = network("spectral")
    other.load_state_dict(net.state_dict())  # which checkpoints and target networks contain
    assert torch.equal(other(X), net(X))


def test_weights_of_zero_give_the_bias() -> None:
    layer = SpectralLinear(4, 8)
    nn.init.zeros_(layer.weight)
    assert torch.equal(layer(X), layer.bias.expand(16, 8))


@pytest.mark.slow
def test_one_graph_holds_the_pass_its_gradients_and_the_new_estimate() -> None:
    def gradients(net: nn.Module, x: Tensor) -> list[Tensor]:
        return list(torch.autograd.grad(net(x).square().mean(), list(net.parameters())))

    eager, net = network("spectral"), network("spectral")
    torch._dynamo.config.trace_autograd_ops = True
    compiled = torch.compile(gradients, fullgraph=True, backend="aot_eager")
    for _ in range(3):
        for ours, theirs in zip(compiled(net, X), gradients(eager, X), strict=True):
            torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(net[0].u, eager[0].u)


# -- interventions -------------------------------------------------------------------------------------------------


def test_fire_makes_an_isometry_of_the_stored_weight_and_of_the_map() -> None:
    found = learner("spectral")
    make("fire", method="polar").apply(found)
    for map_ in (found.module[2].weight.detach(), matrix(found.module[0].eval())):  # without √(8/4)
        torch.testing.assert_close(map_.mT @ map_, torch.eye(map_.shape[1]), rtol=0, atol=1e-4)


def test_shrinking_a_spectral_layer_changes_nothing_and_snp_moves_a_norms_gain() -> None:
    layer = SpectralLinear(4, 8, bias=False).eval()
    before = layer(X)
    make("snp", toward="zero", lam=0.5).apply(learner_for(layer))
    torch.testing.assert_close(layer(X), before)
    found = learner("layer")
    gain, start = snapshot(found.module)["1.weight"], found.initial["1.weight"]
    make("snp", lam=0.5).apply(found)
    torch.testing.assert_close(found.module[1].weight.detach(), (gain + start) / 2)


@pytest.mark.parametrize("normalization", ["none", "layer", "spectral"])
def test_a_redraw_covers_every_parameter(normalization: str) -> None:
    net = network(normalization)
    assert redraw(net).keys() == dict(net.named_parameters()).keys()


def test_no_weight_is_moved_between_layers_that_are_normalized() -> None:
    for normalization, pairs in (("none", 2), ("layer", 0), ("spectral", 0)):
        assert len(learner(normalization).linear_pairs()) == pairs
