"""FIRE's Theorems 1, 3 and 4 and Corollary 2 hold on random networks (Section 3, Appendix A). Theorem 2 has a file of
its own.

The paper's W is (in, out): features are Z W. A torch weight is its transpose; eq. 2 of W is its `side="rows"`.
"""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from supple.metrics import (
    activity_scores,
    dfi,
    dormant_fraction,
    feature_covariance_distance,
    sfe,
    srank,
)

seeds = st.integers(0, 10_000)
few = settings(max_examples=30)


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def near_isometry(inputs: int, outputs: int, epsilon: float, seed: int) -> Tensor:
    """(in, out) matrix with in ≥ out and √DfI = epsilon exactly: W = U √(I + εD) Vᵀ with ‖D‖_F = 1."""
    u, _, vh = torch.linalg.svd(gaussian(inputs, outputs, seed=seed), full_matrices=False)
    direction = gaussian(outputs, seed=seed + 1)
    return u @ torch.diag((1 + epsilon * direction / direction.norm()).sqrt()) @ vh


@pytest.mark.slow
@pytest.mark.parametrize("activation", [torch.relu, torch.tanh])
@few
@given(st.lists(st.integers(2, 8), min_size=2, max_size=5), st.floats(1e-3, 2.0), seeds)
def test_theorem_1_sfe_bounds_the_change_of_feature_covariance(
    activation: object, widths: list[int], change: float, seed: int
) -> None:
    Z = gaussian(6, widths[0], seed=seed)
    shapes = list(pairwise(widths))
    old = [gaussian(*shape, seed=seed + 1 + i) / math.sqrt(shape[0]) for i, shape in enumerate(shapes)]
    new = [W + change * gaussian(*W.shape, seed=seed + 50 + i) for i, W in enumerate(old)]

    features = []
    for weights in (old, new):
        H = Z
        for W in weights:
            H = activation(H @ W)  # type: ignore[operator]
        features.append(H)
    m = min(H.norm().item() for H in features)
    assume(m > 1e-6)  # the theorem's own condition: neither representation is dead

    spectral = [max(torch.linalg.matrix_norm(W, 2).item() for W in pair) for pair in zip(old, new, strict=True)]
    factor = math.prod(spectral) ** 2 * sum(B**-2 for B in spectral)
    bound = 16 * Z.square().sum().item() / m**2 * factor * sfe(old, new)
    assert feature_covariance_distance(*features) ** 2 <= bound * (1 + 1e-9)


@pytest.mark.slow
@few
@given(st.integers(1, 8), st.integers(0, 4), st.floats(0.0, 0.98), st.sampled_from([0.01, 0.1, 0.5]), seeds)
def test_theorem_3_dfi_bounds_srank_from_below(
    outputs: int, extra: int, epsilon: float, delta: float, seed: int
) -> None:
    W = near_isometry(outputs + extra, outputs, epsilon, seed)
    assert math.sqrt(dfi(W.T, side="rows")) == pytest.approx(epsilon, abs=1e-7)
    Z = gaussian(20, outputs + extra, seed=seed + 2)
    u, _, vh = torch.linalg.svd(W, full_matrices=False)
    Q = u @ vh
    spread = torch.linalg.eigvalsh(Q.T @ (Z.T @ Z / len(Z)) @ Q)
    condition = math.sqrt((1 + epsilon) / (1 - epsilon))

    def bound(rho: float) -> int:
        return math.ceil((1 - delta) * outputs / (delta * rho + 1 - delta) - 1e-9)

    assert srank(Z @ W, delta) >= bound(condition * math.sqrt(spread[-1] / spread[0]))
    whitened = torch.linalg.qr(Z).Q * math.sqrt(len(Z))
    assert srank(whitened @ W, delta) >= bound(condition)


@pytest.mark.slow
@few
@given(st.integers(2, 8), st.integers(0, 4), st.floats(0.0, 0.98), seeds)
def test_theorem_4_dfi_bounds_activity_scores(outputs: int, extra: int, epsilon: float, seed: int) -> None:
    W = near_isometry(outputs + extra, outputs, epsilon, seed)
    limit = math.sqrt((1 + epsilon) / (1 - epsilon))
    # For Gaussian inputs a positive-homogeneous unit's expected activity is proportional to its weight's norm.
    scores = activity_scores(W.norm(dim=0, keepdim=True))
    assert scores.max().item() <= limit * (1 + 1e-6)
    assert scores.min().item() >= (1 - 1e-6) / limit

    tau = math.sqrt((1 - epsilon) / (1 + epsilon))  # Corollary 2: DfI = ((1 − τ²)/(1 + τ²))²
    assert dormant_fraction(W.norm(dim=0, keepdim=True), tau * (1 - 1e-6)) == 0.0


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 0.9])
def test_theorem_4_holds_for_sampled_relu_units(epsilon: float) -> None:
    W = near_isometry(10, 8, epsilon, seed=3)
    scores = activity_scores(torch.relu(gaussian(40_000, 10, seed=4) @ W))
    expected = W.norm(dim=0) / W.norm(dim=0).mean()
    torch.testing.assert_close(scores, expected, rtol=0.03, atol=0)
