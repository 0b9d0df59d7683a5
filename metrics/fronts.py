"""Trade-offs between two numbers that should both be large, such as learning and retention."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import as_array


def pareto_front(points: ArrayLike) -> NDArray[np.bool_]:
    """Return which points no other point dominates, by being at least as large in both numbers and larger in one.

    points: (n, 2); both columns should be large. Returns (n,) booleans; equal points have the same value.
    """
    p = as_array(points).reshape(-1, 2)
    at_least = np.all(p >= p[:, None], axis=-1)  # [i, j]: j is nowhere below i
    above = np.any(p > p[:, None], axis=-1)
    return np.asarray(~np.any(at_least & above, axis=1))


def hypervolume(points: ArrayLike, reference: ArrayLike = (0.0, 0.0)) -> float:
    """Return the area that a set of points dominates above a reference point (Zitzler & Thiele 1998).

    points: (n, 2); both columns should be large. Values below the reference count as equal to it. 0 for no points.
    """
    corner = as_array(reference)
    p = np.maximum(as_array(points).reshape(-1, 2), corner)
    if not len(p):
        return 0.0
    p = np.unique(p[pareto_front(p)], axis=0)  # rising in the first number, so falling in the second
    widths = np.diff(p[:, 0], prepend=corner[0])
    return float((widths * (p[:, 1] - corner[1])).sum())
