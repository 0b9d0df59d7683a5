"""Probability of improvement and performance profiles of runs (Agarwal et al. 2021, `rliable`).

Both are computed here, since rliable's bootstrap calls scipy for one statistic at a time and needs about 1 s for each
pair of arms. Point estimates equal rliable's to the last digit.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Array, as_array


@dataclass(frozen=True)
class Improvement:
    """The probability of improvement and its interval; low and high are None for a single run, and if all draws agree.

    They do if each run of one side is better than all of the other: how seeds vary does not show.
    """

    mean: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, eq=False)
class Profile:
    """The share of scores above each threshold, (thresholds,), and its interval, each end (thresholds,)."""

    share: Array
    low: Array
    high: Array


def probability_of_improvement(
    x: ArrayLike, y: ArrayLike, reps: int = 2000, confidence: float = 0.95, seed: int = 0
) -> Improvement:
    """Return the probability that a run of X scores above one of Y on the same task, averaged over tasks.

    A tie counts half. .5: neither is better; 1: every run of X beats every run of Y. It says how often, not by how
    much. The interval is the percentile interval of a stratified bootstrap. For every task, the runs of X and of Y are
    drawn with replacement and independently, so shared seeds have no influence.

    Args:
        x, y: (runs, tasks) scores, larger is better. The numbers of runs may differ. NaN is left out.
        reps: Number of draws, at least 1.
        confidence: Of the interval, in (0, 1).
        seed: Seed of the draws.
    """
    first, second = _columns(x), _columns(y)
    draw = np.random.default_rng(seed)
    means, drawn = np.empty(len(first)), np.zeros(reps)
    for task, (a, b) in enumerate(zip(first, second, strict=True)):
        wins = (np.sign(a[:, None] - b[None, :]) + 1) / 2  # (runs of X, runs of Y): 1, .5 or 0
        means[task] = wins.mean()
        drawn += ((_shares(draw, len(a), reps) @ wins) * _shares(draw, len(b), reps)).sum(axis=1) / len(first)
    low, high = np.percentile(drawn, _tails(confidence))
    if low == high or any(len(column) < 2 for column in (*first, *second)):
        return Improvement(float(means.mean()))
    return Improvement(float(means.mean()), float(low), float(high))


def performance_profile(
    scores: ArrayLike, thresholds: ArrayLike, reps: int = 2000, confidence: float = 0.95, seed: int = 0
) -> Profile:
    """Return the share of all scores above each threshold, averaged over tasks, with its point-wise interval.

    If one curve is above another everywhere, its method is better by any score. The interval is that of a stratified
    bootstrap over runs.

    Args:
        scores: (runs, tasks), NaN left out; several tasks must share one scale.
        thresholds: (thresholds,), in the unit of the scores.
        reps: Number of draws, at least 1.
        confidence: Of the interval, in (0, 1).
        seed: Seed of the draws.
    """
    columns, at = _columns(scores), as_array(thresholds)
    draw = np.random.default_rng(seed)
    share, drawn = np.zeros(len(at)), np.zeros((reps, len(at)))
    for column in columns:
        above = (column[:, None] > at[None, :]).astype(np.float64)  # (runs, thresholds)
        share += above.mean(axis=0) / len(columns)
        drawn += _shares(draw, len(column), reps) @ above / len(columns)
    low, high = np.percentile(drawn, _tails(confidence), axis=0)
    return Profile(share, low, high)


def _columns(scores: ArrayLike) -> list[Array]:
    """Return the scores of each task, without NaN."""
    values = as_array(scores)
    return [column[np.isfinite(column)] for column in values.T]


def _shares(draw: np.random.Generator, runs: int, reps: int) -> Array:
    """Return the share of each run in a draw of as many runs with replacement, (reps, runs)."""
    return draw.multinomial(runs, np.full(runs, 1 / runs), reps) / runs


def _tails(confidence: float) -> tuple[float, float]:
    tail = 50 * (1 - confidence)
    return tail, 100 - tail
