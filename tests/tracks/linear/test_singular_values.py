"""Singular values of task-aligned networks: closed forms against integration, limits and extremes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

from supple.tracks.linear import (
    aligned_init,
    gradient_flow,
    singular_values,
    transition,
)

numbers = st.floats(-3, 3, allow_subnormal=False)


@pytest.mark.slow
@settings(max_examples=25)
@given(target=numbers, start=numbers, lam=st.floats(-10, 10, allow_subnormal=False), tau=st.floats(0.5, 2))
def test_curves_solve_the_differential_equation(target: float, start: float, lam: float, tau: float) -> None:
    times = np.linspace(0, 2, 6)

    def slope(_: float, s: np.ndarray) -> np.ndarray:
        return 2 * np.hypot(s, lam / 2) * (target - s) / tau

    solved = solve_ivp(slope, (0, 2), [start], "DOP853", times, rtol=1e-9, atol=1e-18).y[0]
    assert_allclose(singular_values(times, target, start, lam, tau), solved, atol=1e-6)


@pytest.mark.parametrize("lam", [-2.0, 0.0, 3.0])
@pytest.mark.parametrize(("n_in", "n_out"), [(3, 3), (5, 3), (3, 5)])
def test_aligned_networks_have_these_singular_values_along_the_flow(lam: float, n_in: int, n_out: int) -> None:
    sigma = np.random.default_rng(0).normal(size=(n_out, n_in))
    U, target, Vt = np.linalg.svd(sigma, full_matrices=False)
    start, times = np.array([0.2, -0.5, 1.0]), np.linspace(0, 3, 7)
    first, second = gradient_flow(*aligned_init(sigma, start, lam, rng=1), sigma, times, tau=2.0)
    along = U.T @ second @ first @ Vt.T
    curves = singular_values(times[:, None], target, start, lam, tau=2.0)
    assert_allclose(along, curves[:, :, None] * np.eye(3), atol=1e-8)


@pytest.mark.slow
@settings(max_examples=50)
@given(target=st.floats(0.1, 3), start=st.floats(0.01, 3), lam=st.floats(-5, 5), t=st.floats(0, 3))
def test_transition_is_equation_116(target: float, start: float, lam: float, t: float) -> None:
    goal, first = np.hypot(target, lam / 2), np.hypot(start, lam / 2)
    middle = target * start + lam**2 / 4
    moving = goal * first * np.sinh(2 * goal * t) + middle * np.cosh(2 * goal * t)
    printed = (moving - middle) / (moving + target * (target - start))
    assert transition(t, target, start, lam) == pytest.approx(printed, abs=1e-9)


@pytest.mark.parametrize(("s1", "s2"), [(1.6, 0.9), (0.9, 1.6), (1.2, 1.2)])
def test_the_derivation_of_equation_116_holds(s1: float, s2: float) -> None:
    """Eqs. 119–137: each identity, and eq. 129 for s(t)."""
    target, t, lam, start = 1.3, 0.4, s2**2 - s1**2, s1 * s2
    goal, first = np.hypot(target, lam / 2), np.hypot(start, lam / 2)
    H = np.sign(lam) * np.sqrt((goal - target) / (goal + target))
    G = 1 / np.sqrt(1 + H**2)
    b, c = s2 * (G + H * G) + s1 * (G - H * G), s2 * (G - H * G) - s1 * (G + H * G)
    moving = goal / 4 * (np.exp(2 * goal * t) * b**2 - c**2 / np.exp(2 * goal * t))
    middle = target * start + lam**2 / 4
    identities = [
        (G**2 * (1 - H**2), target / goal),  # 128
        (G**2 * 4 * H, lam / goal),
        (b * c, lam / goal * (target - start)),  # 131
        (c**2 - b**2, -4 / goal * middle),
        (4 * goal + c**2 - b**2, 4 * target / goal * (target - start)),  # 132
        (moving, goal * first * np.sinh(2 * goal * t) + middle * np.cosh(2 * goal * t)),  # 136
    ]
    assert_allclose(*zip(*identities, strict=True))
    eq_129 = (target * 4 / goal * moving - lam * b * c) / (4 * goal + 4 / goal * moving + c**2 - b**2)
    assert singular_values(t, target, start, lam) == pytest.approx(eq_129)


def test_limits_of_lambda_are_sigmoid_and_exponential() -> None:
    times, target, start = np.linspace(0, 4, 30), 1.3, 0.01
    grown = np.expm1(2 * target * times)
    sigmoid = grown / (grown + target / start)
    assert_allclose(transition(times, target, start, 0.0), sigmoid, atol=1e-12)
    assert_allclose(transition(times, target, start, 1e-5), sigmoid, atol=1e-6)
    errors = []
    for lam in (-100.0, 1000.0):
        scaled = times / abs(lam)
        errors.append(np.abs(transition(scaled, target, start, lam) + np.expm1(-times)).max())
    assert errors[0] < 1e-4
    assert errors[1] == pytest.approx(errors[0] / 100, rel=0.05)  # O(1/λ²)


@pytest.mark.slow
@settings(max_examples=50)
@given(target=numbers, start=numbers, lam=st.floats(-10, 10))
def test_no_time_is_too_long(target: float, start: float, lam: float) -> None:
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        gamma = transition([0.0, 1.0, 1e6, 1e300], target, start, lam)
    assert gamma[0] == 0
    assert ((gamma >= 0) & (gamma <= 1)).all()
    assert (np.diff(gamma) >= 0).all()
    if abs(lam) > 1e-3:
        assert_allclose(singular_values(1e6, target, start, lam), target, atol=1e-12)


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_the_unit_of_weights_and_time_does_not_matter(unit: float) -> None:
    times, start, lam = np.linspace(0, 9, 5), np.array([[-1.0], [0.5], [0.0]]), np.array([[1e-3], [2.0], [-1.0]])
    gamma = transition(times / unit, unit, unit * start, unit * lam)
    assert_allclose(gamma, transition(times, 1.0, start, lam), rtol=1e-9)


def test_at_lambda_zero_a_reversed_mode_stays_on_the_saddle_and_one_without_target_decays_algebraically() -> None:
    assert_allclose(singular_values([[1e3], [1e6]], 1.0, -1.0, [0.0, 1e-6]), [[0, 1], [0, 1]], atol=1e-12)
    assert_allclose(singular_values([0, 1, 1e6], 0.0, 2.0, 0.0), [2, 2 / 5, 2 / (1 + 4e6)])
    assert singular_values(5.0, 0.0, 0.0, 0.0) == 0
