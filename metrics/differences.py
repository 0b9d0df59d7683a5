"""Differences between two arms with the same seeds, and what a few seeds can show about them.

Student, "The Probable Error of a Mean" (1908): the t interval and test. Fisher, "The Design of Experiments" (1935),
section 21: the exact sign-flip test. Holm, "A Simple Sequentially Rejective Multiple Test Procedure" (1979).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import Array, as_array

FEWEST_SIGNS, MOST_SIGNS = 6, 40  # seeds: with five no p-value could be below .0625; with 40 a test takes 16 MB
MOST_SEEDS = 10_000


@dataclass(frozen=True)
class PairedDifference:
    """The difference between two arms with the same seeds.

    Attributes:
        n: Number of seeds that both have.
        mean: Of their differences; NaN for none.
        low, high: The t interval of the mean; None for fewer than two seeds, and if their differences are equal.
        p_t: P-value of the two-sided t test that it is 0; None if there is no interval.
        p_sign_flip: P-value of the exact sign-flip test; None for fewer than 6 seeds or more than 40.
        seeds_needed: Number of seeds that would detect the difference if it and its standard deviation are as observed;
            None if there is no interval, and if 10,000 are not enough.
    """

    n: int
    mean: float
    low: float | None = None
    high: float | None = None
    p_t: float | None = None
    p_sign_flip: float | None = None
    seeds_needed: int | None = None


def t_quantile(seeds: int, level: float) -> float:
    """Return the quantile of Student's t with seeds − 1 degrees of freedom that bounds a two-sided interval.

    seeds: 2 or more. level: Confidence, in (0, 1)."""
    from scipy.special import stdtrit  # scipy.stats.t has the same number, but takes half a second to import

    return float(stdtrit(seeds - 1, (1 + level) / 2))


def t_interval(values: ArrayLike, level: float = 0.95) -> tuple[Array, Array] | None:
    """Return the ends (low, high) of Student's interval for the mean over seeds; None if their spread is unknown.

    It is unknown for fewer than two seeds, and if all seeds are equal: so few, or such coarse numbers, do not show it.

    Args:
        values: (seeds, …) in any unit, finite. If only some numbers are equal in all seeds, their interval is a point.
        level: Confidence, in (0, 1).

    Returns:
        Two arrays, (…), the shape of one seed's values.
    """
    x = as_array(values)
    n = len(x)
    if n < 2 or are_equal(x).all():
        return None
    half = t_quantile(n, level) * x.std(axis=0, ddof=1) / np.sqrt(n)
    middle = x.mean(axis=0)
    return middle - half, middle + half


def paired_difference(
    values: ArrayLike, baseline: ArrayLike, level: float = 0.95, comparisons: int = 1
) -> PairedDifference:
    """Return how `values` differ from `baseline`, seed by seed.

    Args:
        values, baseline: (seeds,), in the same order of seeds and the same unit. A seed with NaN in either is left out.
        level: Confidence of the t interval, in (0, 1).
        comparisons: Number of comparisons that share the family-wise level. It raises `seeds_needed` (to the level of
            the first of Holm's steps) and nothing else. P-values are corrected by `holm`.
    """
    from scipy.stats import ttest_1samp

    x, y = as_array(values), as_array(baseline)
    known = np.isfinite(x) & np.isfinite(y)
    d = _subtract(x[known], y[known])
    ends, mean = t_interval(d, level), float(d.mean()) if d.size else float("nan")
    signs = sign_flip(d) if FEWEST_SIGNS <= len(d) <= MOST_SIGNS else None
    if ends is None:
        return PairedDifference(len(d), mean, p_sign_flip=signs)
    sd = float(d.std(ddof=1))
    p, needed = float(ttest_1samp(d, 0.0).pvalue), seeds_needed(mean, sd, level=(1 - level) / comparisons)
    return PairedDifference(len(d), mean, float(ends[0]), float(ends[1]), p, signs, needed)


def sign_flip(differences: ArrayLike) -> float:
    """Return the two-sided p-value of the exact sign-flip test (Fisher 1935).

    It is the share of all 2ⁿ choices of signs whose sum is at least as far from 0 as that of the differences. It
    assumes symmetry about 0, not normality. differences: (seeds,), finite, 1 to 40 of them.
    """
    d = as_array(differences)
    # Each choice is one of the first half and one of the second: 2 · 2^(n/2) sums instead of 2ⁿ.
    first, second = (_all_sums(half) for half in np.array_split(np.abs(d), 2))
    second = np.sort(second)
    seen = abs(d.sum()) - 1e-12 * np.abs(d).sum()  # sums in another order round differently
    above = len(second) - np.searchsorted(second, seen - first)
    return float(min(1.0, 2 * above.sum() / (len(first) * len(second))))


def holm(p_values: ArrayLike) -> Array:
    """Return Holm's step-down adjusted p-values (1979), in the given order.

    A value below .05 is significant at a family-wise 5 %, however the tests depend on each other. p_values:
    (comparisons,), in [0, 1]; may be empty.
    """
    p = as_array(p_values)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return adjusted


def seeds_needed(mean: float, sd: float, power: float = 0.8, level: float = 0.05) -> int | None:
    """Return the smallest number of seeds, 2 or more, for a two-sided t test with this power; None beyond 10,000.

    If mean and sd are estimated from three seeds, the result is only an order of magnitude.

    Args:
        mean: Of the differences.
        sd: Their standard deviation, ≥ 0 and unbiased, in the unit of the mean.
        power: Probability, in (0, 1), that the test finds a difference with this mean and standard deviation, in its
            direction (noncentral t distribution).
        level: Of the test, in (0, 1).
    """
    from scipy.stats import nct, t

    if mean == 0 or sd == 0:
        return None if mean == 0 else 2

    def enough(n: int) -> bool:
        return bool(nct.sf(t.ppf(1 - level / 2, n - 1), n - 1, abs(mean) / sd * np.sqrt(n)) >= power)

    few, many = 1, 2
    while not enough(many):
        if many >= MOST_SEEDS:
            return None
        few, many = many, min(2 * many, MOST_SEEDS)
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if enough(middle) else (middle, many)
    return many


def are_equal(values: Array) -> NDArray[np.bool_]:
    """Return whether the numbers along the first axis are equal up to rounding, (…). There must be one or more."""
    return np.asarray(np.ptp(values, axis=0) <= 1e-12 * np.abs(values).max(axis=0))


def _subtract(x: Array, y: Array) -> Array:
    """Return x − y, with differences exactly 0 or exactly equal if they are so up to rounding."""
    d, rounding = x - y, 1e-12 * np.abs([x, y]).max(initial=0.0)
    d = np.where(np.abs(d) <= rounding, 0.0, d)
    return np.full_like(d, d[0]) if d.size and np.ptp(d) <= rounding else d


def _all_sums(sizes: Array) -> Array:
    """Return the sums of the numbers with all choices of their signs, (2ⁿ,)."""
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate([sums - size, sums + size])
    return sums
