"""Similarity matrices, tangent kernel and limits, against Jacobians, explicit kernels and the exact solution."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from supple.tracks.linear import (
    Exact,
    Quadrants,
    balanced_init,
    converged_quadrants,
    gram,
    ntk,
    ntk_distance,
    quadrants,
    random_regression,
    rsm_input,
    rsm_output,
)
from supple.tracks.linear.figures.runs import qq, stack

Array = np.ndarray


def weights(n_in: int, n_hidden: int, n_out: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_hidden, n_in)), rng.normal(size=(n_out, n_hidden))


def test_quadrants_are_those_of_the_weights_with_leading_dimensions() -> None:
    W1, W2 = stack([weights(3, 2, 4, seed) for seed in range(5)])
    for found, right in zip(quadrants(qq(W1, W2), 3), gram(W1, W2), strict=True):
        assert_allclose(found, right)


def test_similarities_are_those_of_hidden_activity_of_inputs_and_of_the_shortest_that_targets_need() -> None:
    W1, W2 = weights(3, 2, 5)
    x, y = np.random.default_rng(1).normal(size=(3, 6)), np.random.default_rng(2).normal(size=(5, 4))
    hidden, shortest = W1 @ x, np.linalg.pinv(W2) @ y
    assert_allclose(rsm_input(gram(W1, W2).w1tw1, x), hidden.T @ hidden)
    assert_allclose(rsm_output(gram(W1, W2).w2w2t, y), shortest.T @ shortest, atol=1e-9)


def test_ntk_is_the_gram_matrix_of_the_jacobian() -> None:
    W1, W2 = weights(3, 2, 4)
    x = np.random.default_rng(1).normal(size=(3, 5))
    theta, step = np.concatenate([W1.ravel(), W2.ravel()]), 1e-6

    def outputs(theta: Array) -> Array:
        return np.asarray(theta[6:].reshape(4, 2) @ theta[:6].reshape(2, 3) @ x).ravel()

    jacobian = np.stack([(outputs(theta + d) - outputs(theta - d)) / (2 * step) for d in step * np.eye(14)], axis=1)
    kernels = ntk(np.stack([W1.T @ W1] * 2), np.stack([W2 @ W2.T] * 2), x)
    assert_allclose(kernels, [jacobian @ jacobian.T] * 2, atol=1e-7)


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(0, 5))
def test_ntk_distance_equals_that_of_the_full_kernels(n_in: int, n_hidden: int, n_out: int, seed: int) -> None:
    x = random_regression(n_in, n_out, n_in + 3, rng=seed).x
    a, b = (gram(*weights(n_in, n_hidden, n_out, seed + k)) for k in (1, 2))
    first, second = (ntk(each.w1tw1, each.w2w2t, x) for each in (a, b))
    full = 1 - (first * second).sum() / np.linalg.norm(first) / np.linalg.norm(second)
    assert ntk_distance(a, b) == pytest.approx(full, abs=1e-12)
    several = Quadrants(*map(np.stack, zip(a, b, strict=True)))  # a course, against its start
    assert_allclose(ntk_distance(several, a), [0, full], atol=1e-12)
    turned = (Quadrants(each.w2w2t, each.w2w1.T, each.w1tw1) for each in (a, b))  # so λ and −λ are alike on average
    assert ntk_distance(*turned) == pytest.approx(full, abs=1e-12)


def test_ntk_distance_is_exact_for_close_networks() -> None:
    close = (gram(np.eye(2), np.diag([1.0, scale])) for scale in (1.0, 1 + 1e-10))
    assert ntk_distance(*close) == pytest.approx(1.25e-21, rel=1e-3)


@pytest.mark.parametrize("lam", [-3.0, 0.5, 4.0])
@pytest.mark.parametrize(("n_in", "n_out"), [(4, 4), (5, 3), (3, 5)])
def test_networks_converge_to_the_closed_form(lam: float, n_in: int, n_out: int) -> None:
    sigma = np.random.default_rng(0).normal(size=(n_out, n_in))
    W1, W2 = balanced_init(lam, n_in, min(n_in, n_out), n_out, rng=1)
    for end in (Exact(W1, W2, sigma).limit(), Exact(W1, W2, sigma).qq(1e4)[0]):
        for found, right in zip(quadrants(end, n_in), converged_quadrants(sigma, lam), strict=True):
            assert_allclose(found, right, atol=1e-8)


def test_of_a_low_rank_task_that_limit_is_determined_in_the_smaller_layer() -> None:
    sigma = np.diag([2.0, 1.0, 0.0])
    limit = quadrants(Exact(*balanced_init(2.0, 3, 3, 3, rng=0), sigma).limit(), 3)
    assert_allclose(limit, converged_quadrants(sigma, 2.0), atol=1e-9)
    assert np.isfinite(converged_quadrants(np.eye(4, 2) * [1, 0], -1.0).w2w2t).all()


@pytest.mark.parametrize("sign", [-1, 1])
def test_converged_layers_approach_the_lazy_limit_with_the_stated_orders_of_error(sign: int) -> None:
    sigma = np.random.default_rng(0).normal(size=(3, 4))

    left, values, right = np.linalg.svd(sigma, full_matrices=False)

    def errors(lam: float) -> list[float]:
        """Of the smaller layer, and of the larger, from the leading order of Theorem C.4."""
        squared = [values**2 / abs(lam), np.full(3, abs(lam))][::sign]
        limits = (right.T * squared[0]) @ right, (left * squared[1]) @ left.T
        pairs = zip(converged_quadrants(sigma, lam)[::2], limits, strict=True)
        return [float(np.linalg.norm(a - b)) for a, b in pairs][::sign]

    assert np.divide(errors(100 * sign), errors(1000 * sign)) == pytest.approx([1000, 10], rel=0.1)
