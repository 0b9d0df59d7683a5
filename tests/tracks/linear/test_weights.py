"""Initial weights: λ-balance to rounding for all sizes that it allows, and a reason for the others."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from supple.tracks.linear import (
    aligned_init,
    balance,
    balance_residual,
    balanced_init,
    expected_balance,
    gradient_descent,
    gradient_flow,
    random_init,
)
from supple.tracks.linear.figures.runs import stack
from supple.tracks.linear.weights import random_rotation, singular_pair

sizes = st.integers(1, 9)


@pytest.mark.slow
@settings(max_examples=80)
@given(sizes, sizes, sizes, st.floats(-10, 10), st.floats(-4, 0.5), st.integers(0, 1000))
@example(3, 3, 2, -1.0, 0.0, 0)
@example(2, 3, 3, 1.0, 0.0, 0)  # more hidden units than the product has directions
def test_weights_are_balanced_for_every_size_that_lambda_allows_and_refused_with_the_reason_for_the_others(
    n_in: int, n_hidden: int, n_out: int, lam: float, scale: float, seed: int
) -> None:
    if (lam > 0 and n_hidden > n_out) or (lam < 0 and n_hidden > n_in):
        with pytest.raises(ValueError, match=r"no λ-balanced network has λ = .* has rank"):
            balanced_init(lam, n_in, n_hidden, n_out, rng=seed)
        # the rank argument, tried: the smallest residual that any weights of that size have is |λ|
        assert balance_residual(*random_init(n_in, n_hidden, n_out, rng=seed), lam) >= abs(lam) * (1 - 1e-9)
        return
    w1, w2 = balanced_init(lam, n_in, n_hidden, n_out, 10**scale, seed)
    assert (w1.shape, w2.shape) == ((n_hidden, n_in), (n_out, n_hidden))
    assert balance_residual(w1, w2, lam) <= 1e-10


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(0, 1000), st.sampled_from([-4.0, -1e-6, 0.0, 0.5, 10.0]))
def test_lambda_stays_along_the_gradient_flow(seed: int, lam: float) -> None:
    rng = np.random.default_rng(seed)
    n_in, n_out = rng.integers(2, 6, 2)
    w1, w2 = balanced_init(lam, n_in, min(n_in, n_out), n_out, rng.uniform(0.01, 1.0), rng)
    flow = gradient_flow(w1, w2, rng.normal(size=(n_out, n_in)), np.linspace(0, 10, 20))
    assert balance_residual(*flow, lam) <= 1e-9


@pytest.mark.slow
def test_the_product_is_that_of_two_gaussian_matrices_whatever_lambda() -> None:
    products = [np.matmul(*balanced_init(lam, 5, 4, 4, 0.3, 7)[::-1]) for lam in (-3.0, 0.0, 2.0)]
    assert_allclose(products, [products[0]] * 3, atol=1e-14)
    draws = [np.matmul(*balanced_init(1.0, 3, 3, 4, 0.5, seed)[::-1]) for seed in range(500)]
    assert np.square(draws).mean() == pytest.approx(3 * 0.5**4, rel=0.1)


def test_aligned_weights_share_the_task_s_singular_vectors_and_keep_a_sign() -> None:
    sigma = np.random.default_rng(0).normal(size=(3, 5))
    left, _, right = np.linalg.svd(sigma, full_matrices=False)
    w1, w2 = aligned_init(sigma, [0.5, -0.2, 0.1], -2.0, 1)
    assert_allclose(left.T @ w2 @ w1 @ right.T, np.diag([0.5, -0.2, 0.1]), atol=1e-14)
    assert balance_residual(w1, w2, -2.0) <= 1e-13


@pytest.mark.slow
@given(st.floats(0, 1e6), st.floats(-1e6, 1e6))
def test_a_pair_of_singular_values_has_the_product_and_the_difference_asked_for(value: float, lam: float) -> None:
    first, second = singular_pair(value, lam)
    assert first * second == pytest.approx(value, rel=1e-12)
    assert second**2 - first**2 == pytest.approx(lam, rel=1e-12, abs=1e-12 * value + 1e-300)


@pytest.mark.parametrize("kind", ["lecun", "glorot", "he"])
def test_usual_initialisations_are_balanced_on_average(kind: str) -> None:
    sizes = 30, 20, 50
    measured = np.mean([balance(*random_init(*sizes, kind, seed)) for seed in range(300)], 0)  # type: ignore[arg-type]
    assert_allclose(measured, expected_balance(*sizes, kind) * np.eye(20), atol=0.2)  # type: ignore[arg-type]


def test_a_rotation_is_orthogonal_and_prefers_no_sign() -> None:
    rotations = np.array([random_rotation(3, seed) for seed in range(400)])
    assert_allclose(rotations @ rotations.mT, np.broadcast_to(np.eye(3), rotations.shape), atol=1e-14)
    assert np.abs(rotations.mean(0)).max() < 0.15


def test_gradient_descent_follows_the_flow_to_first_order_and_batches_networks() -> None:
    rng = np.random.default_rng(0)
    starts = [balanced_init(lam, 3, 3, 3, 0.5, rng) for lam in (-2.0, 0.5)]
    sigma = rng.normal(size=(3, 3))
    w1, w2 = stack(starts)
    flow = np.stack([second @ first for first, second in (gradient_flow(*start, sigma, [0, 1, 2]) for start in starts)])

    def errors(rate: float) -> np.ndarray:
        firsts, seconds = gradient_descent(w1, w2, sigma, round(2 / rate), rate, every=round(1 / rate))
        return np.abs((seconds @ firsts).swapaxes(0, 1) - flow).max((1, 2, 3))  # of each network

    assert errors(0.005) == pytest.approx(errors(0.01) / 2, rel=0.1)
