"""What an agent learns, relative to a fresh agent: of one seed, and over seeds with an interval.

Fieller, "Some Problems in Interval Estimation" (1954), J. R. Stat. Soc. B 16: the interval of a ratio of two means.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Array, as_array
from .differences import t_quantile


@dataclass(frozen=True)
class FreshShare:
    """The share of a fresh agent over seeds.

    Attributes:
        n: Number of seeds with all numbers.
        mean: The share of the means over these seeds; NaN without a seed, or if the fresh agent learned nothing.
        low, high: The ends of its interval. None for fewer than two seeds; −∞ and ∞ if it is not bounded.
    """

    n: int
    mean: float
    low: float | None = None
    high: float | None = None


def share_of_fresh(area: ArrayLike, fresh: ArrayLike, random: ArrayLike) -> Array:
    """Return the learning of an agent relative to that of a fresh agent: (A − A_random) / (A_fresh − A_random).

    1: it learns as well as a fresh agent; 0: not at all; values above 1 and below 0 are possible. It does not depend on
    an offset of the returns or on other arms. The definition is ours. The formula also scales the returns of several
    tasks alike: 0 is random actions, 1 a reference.

    Args:
        area, fresh: Areas under learning curves (`learning_curve_area`) of the agent and of a fresh agent, (…), or
            returns.
        random: The mean return of the untrained policy or of random actions, (…). All three broadcast, and have one
            unit.

    Returns:
        The share, (…); NaN if fresh ≤ random, since the fresh agent learned nothing.
    """
    a, f, r = (as_array(values) for values in (area, fresh, random))
    learned = f - r
    return np.divide(
        a - r, learned, out=np.full(np.broadcast_shapes(a.shape, f.shape, r.shape), np.nan), where=learned > 0
    )


def share_over_seeds(area: ArrayLike, fresh: ArrayLike, random: ArrayLike, level: float = 0.95) -> FreshShare:
    """Return the share of a fresh agent by the means over seeds, averaged over environments, with its interval.

    In an environment, it is mean(A − A_random) / mean(A_fresh − A_random). The mean of the seeds' own shares would be
    ruled by the seeds in which the fresh agent happened to learn little, and is biased.

    One environment has Fieller's interval (1954): the shares θ for which a t test with seeds − 1 degrees of freedom
    does not reject that the mean of A − A_random − θ · (A_fresh − A_random) is 0. It is exact if both differences are
    normal, however they correlate, as they do since a seed has one A_random. It is not bounded if what the fresh agent
    learned is not above 0 with the same confidence: the data then allow any share. Several environments have Student's
    interval, with as many degrees of freedom, of the mean over environments of (A − A_random − share · (A_fresh −
    A_random)) / mean(A_fresh − A_random) of each seed. This is the delta method, whose interval is always bounded.
    docs/interval_coverage.py simulates how often both contain the true share.

    Args:
        area, fresh, random: As in `share_of_fresh`, (seeds, environments) or (seeds,). A seed with NaN in one of them
            is left out.
        level: Confidence, in (0, 1).

    Examples:
        >>> from supple.metrics import share_over_seeds
        >>> share = share_over_seeds(area=[40, 52, 47], fresh=[95, 100, 108], random=[9, 12, 10])
        >>> round(share.mean, 3), round(share.low, 3), round(share.high, 3)
        (0.397, 0.279, 0.525)
    """
    a, f, r = (as_array(values) for values in (area, fresh, random))
    x, y = (each if each.ndim == 2 else each[:, None] for each in (a - r, f - r))
    known = np.isfinite(x).all(axis=1) & np.isfinite(y).all(axis=1)
    x, y, n = x[known], y[known], int(known.sum())
    learned = y.mean(axis=0) if y.size else np.zeros(1)
    if (learned <= 0).any():
        return FreshShare(n, float("nan"))
    shares = x.mean(axis=0) / learned
    mean = float(shares.mean())
    if n < 2:
        return FreshShare(n, mean)
    quantile = t_quantile(n, level)
    if x.shape[1] == 1:
        return FreshShare(n, mean, *_fieller(x[:, 0], y[:, 0], quantile))
    half = quantile * ((x - shares * y) / learned).mean(axis=1).std(ddof=1) / np.sqrt(n)
    return FreshShare(n, mean, float(mean - half), float(mean + half))


def _fieller(x: Array, y: Array, quantile: float) -> tuple[float, float]:
    """Return the ends of the ratios θ for which the mean of x − θy is less than `quantile` standard errors from 0."""
    (xx, xy), (_, yy) = quantile**2 * np.cov(x, y) / len(x)
    a, b, c = y.mean() ** 2 - yy, x.mean() * y.mean() - xy, x.mean() ** 2 - xx
    if a <= 0:
        return -np.inf, np.inf
    root = np.sqrt(max(0.0, b * b - a * c))  # below 0 only by rounding
    return float((b - root) / a), float((b + root) / a)
