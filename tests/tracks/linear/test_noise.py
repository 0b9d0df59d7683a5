"""Loss under noise: closed forms against exact moments (derivatives of the loss) and a Monte Carlo."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from supple.tracks.linear.exact import Exact
from supple.tracks.linear.noise import (
    converged_norms,
    converged_parameter_noise_loss,
    input_noise_loss,
    most_robust_lambda,
    parameter_noise_loss,
)
from supple.tracks.linear.weights import balanced_init


def test_parameter_noise_is_exact_for_two_point_noise_of_one_unit() -> None:
    """All 2⁵ corners ±σ of (1, 3)- and (2, 1)-shaped weights: their mean has the moments of any such noise."""
    rng, std = np.random.default_rng(1), 0.7
    W1, W2, sigma = rng.normal(size=(1, 3)), rng.normal(size=(2, 1)), rng.normal(size=(2, 3))
    corners = std * (1 - 2 * ((np.arange(32)[:, None] >> np.arange(5)) & 1))
    noisy = (W2 + corners[:, :2, None]) @ (W1 + corners[:, None, 2:])
    rise = np.square(noisy - sigma).sum((-2, -1)).mean() / 2 - np.square(W2 @ W1 - sigma).sum() / 2
    assert parameter_noise_loss(W1, W2, std) == pytest.approx(rise)


@pytest.mark.parametrize(("lam", "n_in", "n_out"), [(-2.0, 4, 4), (3.0, 5, 3), (-3.0, 5, 3), (2.0, 3, 5)])
def test_converged_networks_have_these_norms(lam: float, n_in: int, n_out: int) -> None:
    rng = np.random.default_rng(2)
    sigma = rng.normal(size=(n_out, n_in))
    W1, W2 = balanced_init(lam, n_in, min(n_in, n_out), n_out, rng=rng)
    limit = Exact(W1, W2, sigma).limit()
    norms = [np.trace(limit[:n_in, :n_in]), np.trace(limit[n_in:, n_in:])]
    np.testing.assert_allclose(converged_norms(sigma, lam), norms)
    at_rest = [np.zeros_like(W1), np.zeros_like(W2)]
    at_rest[0][0, 0], at_rest[1][0, 0] = np.sqrt(norms)
    np.testing.assert_allclose(converged_parameter_noise_loss(sigma, lam, 0.3), parameter_noise_loss(*at_rest, 0.3))


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (6, 1), (1, 6)])
def test_most_robust_lambda_is_the_minimum_of_the_loss(shape: tuple[int, int]) -> None:
    sigma = np.random.default_rng(3).normal(size=shape)
    minimum = minimize_scalar(lambda lam: converged_parameter_noise_loss(sigma, lam, 1.0), bracket=(-1, 1), tol=1e-10)
    lam = most_robust_lambda(sigma)
    assert lam == pytest.approx(minimum.x, abs=1e-6)
    assert np.sign(lam) == np.sign(shape[0] - shape[1])


def test_most_robust_lambda_of_equal_singular_values_has_a_closed_form() -> None:
    for unit in (1e-12, 1.0, 1e12):
        assert most_robust_lambda(2.0 * unit * np.eye(2, 8)) == pytest.approx(2 * unit * (2 - 8) / np.sqrt(16))


def test_most_robust_lambda_of_low_rank_is_at_the_kink() -> None:
    sigma = np.zeros((4, 3))
    assert most_robust_lambda(sigma) == 0
    sigma[0, 0] = 1.0
    assert most_robust_lambda(sigma) == pytest.approx(0, abs=1e-9)


def test_input_noise_does_not_depend_on_lambda_and_parameter_noise_broadcasts() -> None:
    sigma = np.random.default_rng(4).normal(size=(4, 4))
    lam, std = np.linspace(-5, 5, 11), np.array([[0.5], [1.0]])
    loss = converged_parameter_noise_loss(sigma, lam, std)
    assert loss.shape == (2, 11)
    np.testing.assert_allclose(loss, loss[:, ::-1])  # N_i = N_o: even in λ
    assert (loss.argmin(1) == 5).all()
    rise = np.square(sigma).sum() / 8
    np.testing.assert_allclose(input_noise_loss(np.stack([sigma, 2 * sigma]), 0.5), [rise, 4 * rise])
