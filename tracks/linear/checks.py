"""Checks of the arguments of the theory: networks in float64 with matching shapes, finite numbers, and times."""

import math

import numpy as np
from numpy.typing import ArrayLike

from .weights import Array


def check_network(first: ArrayLike, second: ArrayLike, sigma_yx: ArrayLike) -> tuple[Array, Array, Array]:
    """Return the arrays W₁ (…, N_h, N_i), W₂ (…, N_o, N_h) and Σyx (…, N_o, N_i).

    Raises ValueError if the shapes do not match or a number is not finite.
    """
    w1, w2, sigma = (np.asarray(array, float) for array in (first, second, sigma_yx))
    shapes = w1.shape, w2.shape, sigma.shape
    fits = all(len(shape) >= 2 and min(shape[-2:]) for shape in shapes)
    if not fits or w2.shape[-1] != w1.shape[-2] or sigma.shape[-2:] != (w2.shape[-2], w1.shape[-1]):
        raise ValueError("W1 is (N_h, N_i), W2 (N_o, N_h) and sigma_yx (N_o, N_i), got {}, {} and {}".format(*shapes))
    if not all(np.isfinite(array).all() for array in (w1, w2, sigma)):
        raise ValueError("W1, W2 and sigma_yx must be finite")
    return w1, w2, sigma


def rescale_times(tau: float, times: ArrayLike) -> Array:
    """Return times/τ, of any shape.

    Raises ValueError unless all times are finite and ≥ 0, and τ is finite and > 0.
    """
    if not 0 < tau < math.inf:
        raise ValueError(f"tau must be finite and > 0, got {tau}")
    with np.errstate(over="ignore"):
        time: Array = np.asarray(times, float) / tau
    if not (np.isfinite(time) & (time >= 0)).all():
        raise ValueError("times must be finite and ≥ 0")
    return time
