import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from supple.interventions import StackedLinear, learner_for, make, orthogonalize, parseval_penalty
from tests.interventions.common import learner, update


@pytest.mark.slow
@settings(max_examples=25)
@given(rows=st.integers(1, 7), columns=st.integers(1, 7), s=st.floats(0.1, 4), seed=st.integers(0, 99))
def test_value_and_gradient_are_those_of_the_equation_and_an_isometry_of_scale_root_s_is_a_minimum(
    rows, columns, s, seed
):
    weight = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    weight.requires_grad_()
    plain = (weight @ weight.T - s * torch.eye(rows, dtype=torch.float64)).square().sum()
    ours = parseval_penalty(weight, s)
    torch.testing.assert_close(ours, plain)
    torch.testing.assert_close(*(torch.autograd.grad(value, weight)[0] for value in (ours, plain)))
    isometry = s**0.5 * orthogonalize(weight.detach(), method="polar")
    value = parseval_penalty(isometry.requires_grad_(), s)
    assert value.item() == pytest.approx(s**2 * max(rows - columns, 0), abs=1e-9)
    assert torch.autograd.grad(value, isometry)[0].abs().max() < 1e-9


def test_a_kernel_is_a_matrix_of_one_row_for_each_output_and_a_stack_a_sum():
    conv = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2))
    terms = [parseval_penalty(conv[0].weight.reshape(3, 18)), parseval_penalty(conv[3].weight)]
    torch.testing.assert_close(make("parseval", strength=0.5).penalty(learner_for(conv)), 0.5 * sum(terms))
    stack = nn.Sequential(StackedLinear(3, 4, 5), nn.ReLU(), StackedLinear(3, 5, 2))
    terms = [parseval_penalty(matrix) for layer in (stack[0], stack[2]) for matrix in layer.weight]
    torch.testing.assert_close(make("parseval", strength=1.0).penalty(learner_for(stack)), sum(terms))


@pytest.mark.slow
def test_in_training_it_makes_the_rows_of_its_scope_orthonormal():
    target = learner(lambda: nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)), x=torch.ones(2, 6))
    head = target.module[2].weight.detach().clone()
    update(target, make("parseval", strength=1.0, scope="encoder"), 200, alone=True)
    weight = target.module[0].weight.detach()
    torch.testing.assert_close(weight @ weight.T, torch.eye(4), rtol=0, atol=1e-4)
    assert torch.equal(target.module[2].weight, head)
