"""Per-sample gradients against one backward pass each; their covariance and its rank against numpy."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from supple.interventions import StackedLinear
from supple.metrics import gradient_covariance, gradient_effective_rank, per_sample_gradients, srank

few = settings(max_examples=20)


def gaussian(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_per_sample_gradients_are_those_of_a_pass_for_each_sample() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)).double()
    unused = torch.ones(2, dtype=torch.float64, requires_grad=True)
    losses = nn.functional.cross_entropy(net(gaussian(6, 1, 4, 4)), torch.arange(6) % 3, reduction="none")
    gradients_by_sample = per_sample_gradients(losses, [*net.parameters(), unused])
    for i, loss in enumerate(losses):
        one = torch.autograd.grad(loss, list(net.parameters()), retain_graph=True)
        expected = torch.cat([*(g.flatten() for g in one), torch.zeros(2).double()])
        torch.testing.assert_close(gradients_by_sample[i], expected)
    assert all(p.grad is None for p in net.parameters())


def test_every_member_of_a_stack_has_the_gradients_of_its_own() -> None:
    torch.manual_seed(0)
    stack = nn.Sequential(StackedLinear(2, 3, 4), nn.Tanh(), StackedLinear(2, 4, 2)).double()
    x = gaussian(2, 5, 3)
    gradients_by_sample = per_sample_gradients(stack(x).square().mean(-1), stack.parameters())
    assert gradients_by_sample.shape == (2, 5, 4 * 3 + 4 + 2 * 4 + 2)
    for member in range(2):
        alone = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
        alone.load_state_dict({name: value[member] for name, value in stack.state_dict().items()})
        expected = per_sample_gradients(alone(x[member]).square().mean(-1), alone.parameters())
        torch.testing.assert_close(gradients_by_sample[member], expected)


@pytest.mark.slow
@few
@given(st.integers(1, 8), st.integers(1, 12), st.sampled_from([0.5, 0.9, 0.99]), st.integers(0, 1000))
def test_rank_is_that_of_the_gram_matrix_as_the_paper_has_it(n: int, d: int, tau: float, seed: int) -> None:
    gradients = gaussian(n, d, seed=seed)
    G = gradients.numpy().T  # the paper has a sample in each column
    M = G.T @ G
    np.testing.assert_allclose(gradient_covariance(gradients).numpy(), M, rtol=1e-10, atol=1e-10)
    values = np.linalg.svd(M, compute_uv=False)
    expected = next(k for k in range(1, n + 1) if values[:k].sum() >= tau * (1 - 1e-9) * values.sum())
    assert int(gradient_effective_rank(gradients, tau)) == expected <= srank(gradients, 1 - tau)


def test_rank_of_gradients_that_are_known() -> None:
    assert int(gradient_effective_rank(torch.eye(100))) == 99  # a tie: exactly 99 %
    assert int(gradient_effective_rank(torch.ones(6, 4))) == 1
    assert int(gradient_effective_rank(torch.zeros(6, 4))) == 0
    both = torch.stack([torch.eye(4), torch.ones(4, 4)])  # members of a stack
    assert gradient_effective_rank(both).tolist() == [4, 1]


def test_normalized_covariance_holds_cosines() -> None:
    gradients = gaussian(5, 3)
    gradients[2] = 0
    cosines = gradient_covariance(gradients, normalized=True)
    expected = nn.functional.cosine_similarity(gradients[:, None], gradients[None], dim=-1)
    torch.testing.assert_close(cosines, expected)
    assert not cosines[2].any()
