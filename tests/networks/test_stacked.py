"""To an intervention, every member of a stack is a network of its own."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from supple.interventions import (
    StackedConv2d,
    StackedLayerNorm,
    StackedLinear,
    Wiring,
    learner_for,
    make,
    recycle_,
    redraw,
    snapshot,
)

X = torch.randn(16, 4, generator=torch.Generator().manual_seed(5))


def network(members: int = 0) -> nn.Sequential:
    """Linear and normalisation layers, stacked or (members = 0) plain; parameters have the same names."""
    linear = partial(StackedLinear, members) if members else nn.Linear
    norm = partial(StackedLayerNorm, members) if members else nn.LayerNorm
    return nn.Sequential(
        linear(4, 8), norm(8), nn.ReLU(), linear(8, 8), nn.ReLU(), linear(8, 6), nn.ReLU(), linear(6, 2)
    )


# -- the layers ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=15)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 6), st.booleans(), st.integers(0, 100))
def test_a_stacked_layer_computes_what_its_members_compute(members, n, d, shared, seed):
    torch.manual_seed(seed)
    linear, norm = StackedLinear(members, d, 7), StackedLayerNorm(members, 7, eps=1e-3)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    x = torch.randn(n, d) if shared else torch.randn(members, n, d)
    for i, out in enumerate(norm(linear(x))):
        hidden = nn.functional.linear(x if shared else x[i], linear.weight[i], linear.bias[i])
        expected = nn.functional.layer_norm(hidden, (7,), norm.weight[i], norm.bias[i], eps=1e-3)
        torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)], ids=["one input for all", "own inputs"])
def test_gradients_of_a_stacked_layer_are_right_to_second_order(shape):
    torch.manual_seed(0)
    layer = StackedLinear(2, 4, 5).double()
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)

    def output(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (x,)).tanh()

    inputs = (x, layer.weight, layer.bias)
    assert torch.autograd.gradcheck(output, inputs)
    assert torch.autograd.gradgradcheck(output, inputs)


def test_members_are_drawn_as_single_layers_in_turn():
    torch.manual_seed(1)
    stack = StackedLinear(3, 5, 4)
    torch.manual_seed(1)
    for i in range(3):
        single = nn.Linear(5, 4)
        torch.testing.assert_close(stack.weight[i], single.weight, rtol=0, atol=1e-7)
        torch.testing.assert_close(stack.bias[i], single.bias, rtol=0, atol=1e-7)


def test_a_redraw_draws_every_member_anew():
    module = network(2)
    drawn = redraw(module, torch.Generator().manual_seed(0))
    assert drawn.keys() == dict(module.named_parameters()).keys()
    first, second = drawn["0.weight"]
    assert not torch.equal(first, second)
    assert not torch.equal(first, module[0].weight[0])
    assert drawn["1.weight"].eq(1).all()


# -- stacks beside single layers -----------------------------------------------------------------------------


def test_units_of_a_single_layer_are_forgotten_by_every_member_that_reads_them():
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), StackedLinear(2, 5, 1))
    with torch.no_grad():
        module[0].bias.fill_(10.0)
        module[0].bias[3] = -100.0
    learner = learner_for(module, probe=lambda: (X,), loss=lambda: module(X).mean())
    before = module(X)
    assert not learner.is_stacked("1")
    make("redo", tau=0.0).apply(learner)
    assert module[2].weight.eq(0).tolist() == [[[False] * 3 + [True, False]]] * 2
    torch.testing.assert_close(module(X), before)


def test_channels_are_forgotten_by_stacked_layers_after_flattening():
    module = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), StackedLinear(2, 12, 1))
    recycle_(module, {"1": torch.tensor([False, True, False])}, {"1": Wiring(("0",), ("3",))}, redraw(module))
    assert module[3].weight.eq(0).tolist() == [[[False] * 4 + [True] * 4 + [False] * 4]] * 2


def test_masks_and_readers_that_do_not_fit_a_stack_are_refused_in_one_line():
    module = network(2)
    fresh, before = redraw(module), snapshot(module)
    with pytest.raises(ValueError, match=r"^'2' has 8 units, but 0 has 2 × 8 outputs$"):
        recycle_(module, {"2": torch.ones(8, dtype=torch.bool)}, {"2": Wiring(("0",), ("3",))}, fresh)
    assert all(torch.equal(value, before[name]) for name, value in snapshot(module).items())
    mixed = learner_for(nn.Sequential(StackedLinear(2, 4, 6), nn.ReLU(), nn.Linear(6, 1)))
    with pytest.raises(ValueError, match=r"^redo: .*'1' has no rows and columns of its own"):
        make("redo").attach(mixed)


@pytest.mark.parametrize(("stride", "padding"), [(1, 0), (2, 0), (2, 1), (4, 1)])
def test_a_stacked_convolution_is_those_of_its_members(stride: int, padding: int) -> None:
    torch.manual_seed(0)
    stack, x = StackedConv2d(3, 2, 4, 3, padding, stride), torch.randn(3, 5, 2, 9, 9)
    alone = [nn.functional.conv2d(x[m], stack.weight[m], stack.bias[m], stride, padding) for m in range(3)]
    torch.testing.assert_close(stack(x), torch.stack(alone))


def test_stacked_layers_learn_under_autocast_as_linear_layers_do() -> None:
    torch.manual_seed(0)
    stack, x = StackedLinear(2, 6, 3), torch.randn(2, 5, 6)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = stack(x)
        alone = torch.stack([nn.functional.linear(x[m], stack.weight[m], stack.bias[m]) for m in range(2)])
    assert outputs.dtype == alone.dtype == torch.bfloat16
    torch.testing.assert_close(outputs, alone)
    (ours,) = torch.autograd.grad(outputs.float().square().sum(), stack.weight)
    (theirs,) = torch.autograd.grad(alone.float().square().sum(), stack.weight)
    torch.testing.assert_close(ours, theirs, rtol=0.02, atol=0.02)
