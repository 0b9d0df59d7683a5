"""Random values that several shifts draw: factors, and permutations that differ from the previous one."""

import math
from typing import Any

import numpy as np


def check_scale(scale: float) -> float:
    """Return a scale. Raises ValueError unless it is positive and finite."""
    if not 0.0 < scale < math.inf:
        raise ValueError(f"scale must be positive and finite, got {scale}")
    return scale


def check_range(low: float, high: float) -> tuple[float, float]:
    """Return a range of factors. Raises ValueError unless 0 < low ≤ high < ∞."""
    if not 0.0 < low <= high < math.inf:
        raise ValueError(f"low and high must be finite with 0 < low <= high, got low={low}, high={high}")
    return low, high


def log_uniform(random: np.random.Generator, low: float, high: float, shape: tuple[int, ...] | None = None) -> Any:
    """Return factors whose logarithm is uniform: one float, or an array of `shape`.

    Args:
        random: Draws the factors.
        low: The smallest factor, above 0.
        high: The largest factor.
        shape: The shape of the array, or None for one float.
    """
    return np.exp(random.uniform(math.log(low), math.log(high), shape)).clip(low, high)  # against rounding errors


def draw_permutation(random: np.random.Generator, previous: np.ndarray) -> np.ndarray:
    """Return a random permutation of 0 … n − 1, n ≥ 2, that differs from `previous`, (n,) of int."""
    change = np.arange(len(previous))
    while np.array_equal(change, np.arange(len(previous))):
        change = random.permutation(len(previous))
    return previous[change]
