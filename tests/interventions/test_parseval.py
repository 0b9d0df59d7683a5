import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from supple.interventions import StackedLinear, learner_for, make, orthogonalize, parseval_penalty


@pytest.mark.slow
@settings(max_examples=25)
@given(rows=st.integers(1, 7), columns=st.integers(1, 7), s=st.floats(0.1, 4), seed=st.integers(0, 99))
def test_value_and_gradient_are_those_of_the_equation_for_wide_and_for_tall_matrices(rows, columns, s, seed):
    weight = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    weight.requires_grad_()
    plain = (weight @ weight.T - s * torch.eye(rows, dtype=torch.float64)).square().sum()
    ours = parseval_penalty(weight, s)
    torch.testing.assert_close(ours, plain)
    torch.testing.assert_close(*(torch.autograd.grad(value, weight)[0] for value in (ours, plain)))


@pytest.mark.parametrize(("rows", "columns"), [(3, 6), (5, 5), (7, 2)])
def test_an_isometry_of_scale_root_s_is_a_minimum(rows, columns):
    weight = 1.5 * orthogonalize(torch.randn(rows, columns, dtype=torch.float64), method="polar")
    value = parseval_penalty(weight.requires_grad_(), 1.5**2)
    assert value.item() == pytest.approx(1.5**4 * max(rows - columns, 0), abs=1e-9)
    assert torch.autograd.grad(value, weight)[0].abs().max() < 1e-9


def test_a_kernel_is_a_matrix_of_one_row_for_each_output_and_a_stack_a_sum():
    conv = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2))
    terms = [parseval_penalty(conv[0].weight.reshape(3, 18)), parseval_penalty(conv[3].weight)]
    torch.testing.assert_close(make("parseval", strength=0.5).penalty(learner_for(conv)), 0.5 * sum(terms))
    stack = nn.Sequential(StackedLinear(3, 4, 5), nn.ReLU(), StackedLinear(3, 5, 2))
    terms = [parseval_penalty(matrix) for layer in (stack[0], stack[2]) for matrix in layer.weight]
    torch.testing.assert_close(make("parseval", strength=1.0).penalty(learner_for(stack)), sum(terms))


def test_weights_outside_the_scope_are_not_penalised():
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    learner = learner_for(net)
    make("parseval", scope="encoder").penalty(learner).backward()
    assert net[0].weight.grad is not None
    assert [net[2].weight.grad, net[0].bias.grad, net[2].bias.grad] == [None] * 3
    with pytest.raises(ValueError, match="unknown scope 'middle'"):
        make("parseval", scope="middle").attach(learner)


@pytest.mark.slow
def test_in_training_it_makes_rows_orthonormal():
    net = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
    learner, parseval = learner_for(net, torch.optim.SGD(net.parameters(), lr=0.05)), make("parseval", strength=1.0)
    for _ in range(200):
        learner.optimizer.zero_grad()
        parseval.penalty(learner).backward()
        learner.optimizer.step()
    for layer in (net[0], net[2]):
        torch.testing.assert_close(layer.weight @ layer.weight.T, torch.eye(len(layer.weight)), rtol=0, atol=1e-4)
