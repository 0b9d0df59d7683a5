"""The exact solution, against integration of the gradient flow, and against its own formula in 300 digits."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from supple.tracks.linear import (
    Exact,
    balanced_factors,
    balanced_init,
    exact_qq,
    follow,
    gradient_flow,
    random_regression,
)
from supple.tracks.linear import exact as module
from supple.tracks.linear.figures.runs import qq
from supple.tracks.linear.weights import Array, random_rotation

mp.mp.dps = 300  # e^{2Λt} of a hundred digits is added to 1


def error(computed: Array, expected: Array) -> float:
    """The largest relative Frobenius error over time."""
    return float((np.linalg.norm(computed - expected, axis=(1, 2)) / np.linalg.norm(expected, axis=(1, 2))).max())


def equation_7(w1: Array, w2: Array, sigma: Array, times: Array) -> Array:
    """The formula as it stands, in 300 digits."""
    n_in, n_out, hidden = w1.shape[1], w2.shape[0], len(w1)
    lam = np.trace(w2.T @ w2 - w1 @ w1.T) / hidden
    f = np.block([[-lam / 2 * np.eye(n_in), sigma.T], [sigma, lam / 2 * np.eye(n_out)]])
    values, p = mp.eigsy(mp.matrix(f.tolist()))
    y = p.T * mp.matrix(np.concatenate([w1.T, w2]).tolist())
    results = []
    for t in times:
        grown = p * mp.diag([mp.exp(v * t) for v in values]) * y
        phi = mp.diag([(mp.exp(2 * v * t) - 1) / (2 * v) if v else mp.mpf(t) for v in values])
        results.append(np.array((grown * (mp.eye(hidden) + y.T * phi * y) ** -1 * grown.T).tolist(), float))
    return np.array(results)


def draw(rng: np.random.Generator) -> tuple[Array, Array, Array, float]:
    """(W₁, W₂, Σyx, τ): any sizes and λ that there are, λ = 0 among them; singular values s̃ of 0.25 and more, so that
    50 τ/s̃ are 200 τ at most, for which integration takes a tenth of a second."""
    lam = 0.0 if rng.random() < 0.15 else rng.uniform(-10, 10)
    n_in, n_out = rng.integers(1, 7, 2)
    widest = n_out if lam > 0 else n_in if lam < 0 else 7
    n_hidden = min(n_in, n_out) if rng.random() < 0.6 else rng.integers(1, widest + 1)
    w1, w2 = balanced_init(lam, n_in, n_hidden, n_out, 10 ** rng.uniform(-4, 0.3), rng)
    rank = min(n_in, n_out)
    left, right = random_rotation(n_out, rng)[:, :rank], random_rotation(n_in, rng)[:rank]
    sigma = (left * rng.uniform(0.25, 3, rank)) @ right
    if lam == 0 and n_in == n_out <= n_hidden and np.linalg.det(w2 @ w1) * np.linalg.det(sigma) < 0:
        sigma[0] *= -1  # else it ends on a saddle, which integration leaves: see below
    return w1, w2, sigma, rng.uniform(0.5, 3.0)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(2))  # of 50 draws
def test_the_solution_is_the_integrated_gradient_flow_for_any_sizes_lambda_and_scale(block: int) -> None:
    rng = np.random.default_rng(block)
    for _ in range(50):
        w1, w2, sigma, tau = draw(rng)
        slowest = np.linalg.svd(sigma)[1].min()
        times = np.sort(rng.uniform(0, 1, 6)) * 50 * tau / slowest
        times[:2] *= 0.01
        assert (
            error(exact_qq(w1, w2, sigma, times, tau), qq(*gradient_flow(w1, w2, sigma, times, tau, rtol=1e-10)))
            <= 1e-6
        )


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_after_a_very_long_time_it_is_at_its_limit_without_overflow(seed: int) -> None:
    w1, w2, sigma, tau = draw(np.random.default_rng(seed))
    solution = Exact(w1, w2, sigma, tau)
    far = solution.qq([1e6 * tau])[0]
    assert np.isfinite(far).all()
    slow = np.abs(np.subtract.outer(v := np.sort(np.linalg.svd(sigma)[1]), v)[~np.eye(len(v), dtype=bool)])
    if slow.min(initial=1) > 1e-3:  # else even that is not long
        assert_allclose(far, solution.limit(), atol=1e-7 * np.abs(far).max())


@pytest.mark.slow
@pytest.mark.parametrize("lam", [0.1, 1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("noise", [0.0, 1e-6])
def test_near_a_saddle_the_solution_matches_equation_7_in_300_digits(lam: float, noise: float) -> None:
    rng = np.random.default_rng(3)
    sigma = rng.normal(size=(3, 3))
    left, values, right = np.linalg.svd(sigma)
    reversed_function = (left * [-1, 1, 1] * values) @ right + noise * rng.normal(size=(3, 3))
    w1, w2 = balanced_factors(reversed_function, 3, lam, random_rotation(3, rng))
    times = np.array([0, 1, 5, 10, 20, 50])
    computed = exact_qq(w1, w2, sigma, times)
    # float64 weights hold the part that leaves the saddle, of the order of λ, to 1e-16/λ
    assert error(computed, equation_7(w1, w2, sigma, times)) <= 1e-11 + 1e-14 / lam


def test_nearly_parallel_columns_are_solved_accurately(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faster of two directions is begun 1e-9 as strongly as the slower, for both hidden units alike."""
    faster = 1e-9 * np.array([1.0, 1.0]) + 1e-10 * np.array([1.0, -1.0])
    w1 = np.array([faster, [1.0, 0.5]]).T
    w2 = np.linalg.cholesky(w1 @ w1.T + 0.5 * np.eye(2)).T
    sigma = np.diag([1.01, 1.0])
    times = np.linspace(0, 40, 9)
    right = equation_7(w1, w2, sigma, times)
    assert error(exact_qq(w1, w2, sigma, times), right) <= 1e-9
    monkeypatch.setattr(module, "DEPENDENT", 2.0)  # all of them by QR
    assert error(exact_qq(w1, w2, sigma, times), right) <= 1e-9


def test_at_lambda_zero_a_reversed_direction_stays_on_the_saddle_and_else_it_is_learned() -> None:
    rng = np.random.default_rng(0)
    left, values, right = np.linalg.svd(rng.normal(size=(4, 4)))
    sigma = (left * values) @ right
    for lam, end in ((0.0, 0.0), (1e-3, values[0]), (-2.0, values[0])):
        start = balanced_factors((left * values * [-1, 1, 1, 1]) @ right, 4, lam, random_rotation(4, rng))
        solution = Exact(*start, sigma)
        for function in (*solution.function([1e3, 1e6]), solution.limit()[4:, :4]):
            assert_allclose(np.diag(left.T @ function @ right.T), [end, *values[1:]], atol=1e-9)


def test_it_begins_with_the_initial_weights_and_its_parts_agree_at_all_times(monkeypatch: pytest.MonkeyPatch) -> None:
    w1, w2 = balanced_init(-1.5, 5, 4, 3, 0.7, 0)
    solution, times = Exact(w1, w2, np.random.default_rng(1).normal(size=(3, 5)), tau=2.0), [0.0, 3.0, 1.0]
    both, factor = solution.qq(times), solution.factor(times)
    assert_allclose(both[0], qq(w1, w2), atol=1e-13)
    assert_allclose(solution.function(times), both[:, 5:, :5], atol=1e-13)
    assert_allclose(factor @ factor.mT, both, atol=1e-13)
    assert solution.lam == pytest.approx(-1.5)
    monkeypatch.setattr(module, "CHUNK", 1)  # each time by itself
    assert_allclose(solution.qq(times), both, rtol=1e-12, atol=1e-14)


@pytest.mark.slow
def test_equal_singular_values_and_those_of_zero_are_no_exception() -> None:
    rng = np.random.default_rng(5)
    times = np.linspace(0, 12, 5)
    left, right = random_rotation(4, rng), random_rotation(4, rng)
    for values in ([2, 2, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]):
        for lam in (0.0, 1.0, -3.0):
            w1, w2 = balanced_init(lam, 4, 4, 4, 0.3, rng)
            sigma = (left * values) @ right
            if np.linalg.det(w2 @ w1) * np.linalg.det(left @ right) < 0 and lam == 0:
                sigma = -sigma * [1, 1, 1, -1]
            assert error(exact_qq(w1, w2, sigma, times), qq(*gradient_flow(w1, w2, sigma, times))) < 1e-6


def test_weights_in_single_precision_are_balanced_enough() -> None:
    w1, w2 = balanced_init(-1.5, 5, 4, 4, 0.7, 0)
    sigma, times = np.random.default_rng(1).normal(size=(4, 5)), [0.0, 0.5, 3.0, 100.0]
    rounded = exact_qq(w1.astype(np.float32), w2.astype(np.float32), sigma, times)
    assert error(rounded, exact_qq(w1, w2, sigma, times)) < 1e-5


def test_a_network_of_zeros_stays_zero() -> None:
    zeros, task = (np.zeros((2, 3)), np.zeros((3, 2))), random_regression(3, 3, 5, rng=0)
    assert not follow(*zeros, [task, task], [0.0, 1e3]).any()
    assert not Exact(*zeros, task.sigma_yx).limit().any()
    assert not gradient_flow(*zeros, task.sigma_yx, [1.0])[1].any()
