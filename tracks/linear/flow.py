"""Numerical training of a two-layer linear network: gradient flow and gradient descent.

    τ dW₁/dt = W₂ᵀ(Σyx − W₂W₁),   τ dW₂/dt = (Σyx − W₂W₁)W₁ᵀ        whitened inputs, any sizes, any weights

Gradient descent with learning rate η is the Euler method with step η = dt/τ. It follows the flow up to O(η).
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from .checks import check_network, rescale_times
from .weights import Array


def gradient_flow(
    first: ArrayLike, second: ArrayLike, sigma_yx: ArrayLike, times: ArrayLike, tau: float = 1.0, rtol: float = 1e-12
) -> tuple[Array, Array]:
    """Return the weights of gradient flow, W₁ (T, N_h, N_i) and W₂ (T, N_o, N_h), at the given times.

    The method is an explicit Runge–Kutta method of order 8 (SciPy's DOP853).

    Args:
        first: W₁ at time 0, (N_h, N_i).
        second: W₂ at time 0, (N_o, N_h).
        sigma_yx: (N_o, N_i), of whitened inputs.
        times: (T,), finite, ≥ 0 and ascending.
        tau: The time constant τ > 0.
        rtol: The relative tolerance. The absolute one is `rtol` times the size of the weights.

    Raises:
        ValueError: A time is negative or not finite, the shapes do not match, or a number is not finite.
        RuntimeError: The integration failed.
    """
    from scipy.integrate import solve_ivp  # with which linear runs would begin later, and which they do not need

    w1, w2, sigma = check_network(first, second, sigma_yx)
    times = rescale_times(tau, times)
    size = w1.size

    def slope(_: float, state: Array) -> Array:
        a, b = state[:size].reshape(w1.shape), state[size:].reshape(w2.shape)
        error = sigma - b @ a
        return np.concatenate([(b.T @ error).ravel(), (error @ a.T).ravel()])

    start = np.concatenate([w1.ravel(), w2.ravel()])
    tolerance = max(rtol * math.sqrt(np.square(start).mean()), 1e-300)  # weights may all be zero
    solved = solve_ivp(slope, (0.0, times[-1]), start, "DOP853", times, rtol=rtol, atol=tolerance)
    if not solved.success:
        raise RuntimeError(f"the gradient flow could not be integrated: {solved.message}")
    states = solved.y.T
    return states[:, :size].reshape(-1, *w1.shape), states[:, size:].reshape(-1, *w2.shape)


def gradient_descent(
    first: ArrayLike, second: ArrayLike, sigma_yx: ArrayLike, steps: int, learning_rate: float, every: int = 1
) -> tuple[Array, Array]:
    """Train by full-batch gradient descent. Return W₁ and W₂ at steps 0, every, 2·every, ….

    Their shapes are (1 + steps//every, …, N_h, N_i) and (1 + steps//every, …, N_o, N_h). Step n corresponds to time
    n·learning_rate·τ of the flow. With a learning rate that is too large, training diverges.

    Args:
        first: W₁ at step 0, (…, N_h, N_i). Leading dimensions are networks that are trained together.
        second: W₂ at step 0, (…, N_o, N_h).
        sigma_yx: (N_o, N_i) for all networks, or (…, N_o, N_i), of whitened inputs.
        steps: ≥ 0.
        learning_rate: η.
        every: Steps from one result to the next, ≥ 1.

    Raises ValueError if the shapes do not match, or a number is not finite.
    """
    w1, w2, sigma = check_network(first, second, sigma_yx)
    w1, w2 = w1.copy(), w2.copy()
    kept = 1 + steps // every
    firsts, seconds = np.empty((kept, *w1.shape)), np.empty((kept, *w2.shape))
    firsts[0], seconds[0] = w1, w2
    for step in range(1, steps + 1):
        error = learning_rate * (sigma - w2 @ w1)
        change = w2.mT @ error
        w2 += error @ w1.mT
        w1 += change
        if step % every == 0:
            firsts[step // every], seconds[step // every] = w1, w2
    return firsts, seconds
