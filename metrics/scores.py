"""Scores of a set of runs: interquartile mean, plasticity score (activations paper, Section 7, App. F)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Array, as_array
from .differences import are_equal

# Runs → environments → share of intervals that hold the truth, as simulated by docs/interval_coverage.py.
BOOTSTRAP_COVERAGE = {
    2: {1: 0.49, 4: 0.74, 10: 0.82},
    3: {1: 0.75, 4: 0.87, 10: 0.89},
    5: {1: 0.90, 4: 0.92, 10: 0.92},
    10: {1: 0.94, 4: 0.94, 10: 0.94},
    20: {1: 0.94, 4: 0.94, 10: 0.94},
}


@dataclass(frozen=True, eq=False)
class Score:
    """The score of one method: IQM, its confidence interval [low, high], and the underlying cells."""

    iqm: float
    low: float
    high: float
    normalized: Array  # (runs, environments), NaN where missing; for the plasticity score each in [0, 1]


def iqm(scores: ArrayLike) -> float:
    """Return the interquartile mean: mean of the middle half of all entries (Agarwal et al. 2021, `rliable`).

    scores: any shape, usually (runs, environments). A quarter of the entries, rounded down, is cut from each end.
    Raises ValueError if there is none or one is NaN.
    """
    values = as_array(scores)
    if values.size == 0 or np.isnan(values).any():
        raise ValueError("iqm: needs at least one score and no NaN")
    from scipy.stats import trim_mean  # takes half a second to import, which every run would pay

    return float(trim_mean(values, 0.25, axis=None))


def plasticity_score(
    returns: Mapping[str, ArrayLike],
    exploded: Mapping[str, ArrayLike] | None = None,
    floor: float = -500.0,
    percentiles: tuple[float, float] = (5.0, 95.0),
    reps: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Score]:
    """Return the plasticity score of every method: IQM of min–max normalised late returns, in [0, 1].

    A score is (R − R_min)/(R_max − R_min), clipped to [0, 1]. If the bounds coincide it takes the limit: 1 above them,
    else 0. An environment in which all runs that did not fail return the same has no scale, and its scores are NaN. The
    score of a method is over the numbers that it has, and NaN without any. With one run the bootstrap has nothing to
    resample: low = high = iqm.

    The interval equals that of `rliable.library.get_interval_estimates` after `np.random.seed(seed)` bit for bit. It is
    computed here, since rliable 1.2 draws from numpy's global generator even if given a `random_state`, and imports
    `arch`, which fails with pandas 3.

    Args:
        returns: Method → (runs, environments), each the mean return over the last 15 % of the last cycle's steps
            (`final_window_return`). NaN is missing. Methods may differ in runs, not in environments.
        exploded: Method → (runs, environments) booleans of physics explosions; methods may be left out.
        floor: A return below it is a failure, and so are exploded and infinite ones. Failures score 0.
        percentiles: The bounds R_min and R_max of an environment, over all methods and runs together. The paper says "a
            robust percentile sweep across all activations" without numbers; 5 and 95 are ours. Failures are left out,
            since one return of −10⁶ would determine the scale of all others.
        reps, confidence, seed: Stratified bootstrap over runs within each environment, percentile interval. The bounds
            are not resampled. Every method starts from the same seed, whatever the others are.

    Returns:
        Method → `Score`.

    Examples:
        >>> from supple.metrics import plasticity_score
        >>> returns = {"fire": [[900, 80], [1000, 100]], "none": [[100, 20], [200, 0]]}  # two runs and environments
        >>> scores = plasticity_score(returns)
        >>> {method: round(score.iqm, 2) for method, score in scores.items()}
        {'fire': 0.95, 'none': 0.05}
        >>> scores["none"].normalized.shape
        (2, 2)
    """
    cells = {name: as_array(values) for name, values in returns.items()}
    flags = {name: np.asarray(values, dtype=bool) for name, values in (exploded or {}).items()}

    # Failures become −∞, which the percentiles skip and which is clipped to 0.
    for name, values in cells.items():
        failed = np.isinf(values) | (values < floor) | flags.get(name, False)
        cells[name] = np.where(failed, -np.inf, values)
    low, high = _bounds(np.concatenate(list(cells.values())), percentiles)
    normalized = {name: _normalize(values, low, high) for name, values in cells.items()}
    return {name: aggregate(scores, reps, confidence, seed) for name, scores in normalized.items()}


def aggregate(scores: Array, reps: int = 2000, confidence: float = 0.95, seed: int = 0) -> Score:
    """Return the IQM of scores, (runs, environments), over those that are not NaN, with its bootstrap interval."""
    known = scores[~np.isnan(scores)]
    ends = bootstrap_interval(scores, reps, confidence, seed)
    return Score(iqm(known) if known.size else float("nan"), *ends, normalized=scores)


def final_window_return(
    steps: ArrayLike, returns: ArrayLike, start: float, end: float, fraction: float = 0.15
) -> float:
    """Return the mean return of the episodes that ended in the last `fraction` of the steps from `start` to `end`.

    The window is (end − fraction·(end − start), end], so an episode that ends at the step of a task switch belongs to
    the earlier task. If no episode ended in it, it reaches back to the last step after `start` at which one did. NaN if
    there is none.

    Args:
        steps, returns: (episodes,), the environment step at which each episode ended, and its return.
        start, end: Environment steps between which the window lies, start < end.
        fraction: Length of the window as a share of end − start, in (0, 1].
    """
    at, values = as_array(steps), as_array(returns)
    inside = (at > start) & (at <= end)
    late = inside & ((at > end - fraction * (end - start)) | (at == at[inside].max(initial=start)))
    return float(values[late].mean()) if late.any() else float("nan")


def bootstrap_interval(scores: Array, reps: int = 2000, confidence: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """Return the percentile interval (low, high) of the IQM of scores by a stratified bootstrap.

    In every environment, as many runs as have a score are drawn with replacement. NaN and NaN without any score.

    Args:
        scores: (runs, environments); NaN where one is missing.
        reps: Number of draws.
        confidence: In (0, 1).
        seed: Seed of the draws.
    """
    from scipy.stats import trim_mean

    # RandomState and not default_rng: the same draws as rliable's, so that the two can be compared exactly.
    known = (~np.isnan(scores)).sum(axis=0)
    if not known.any():
        return float("nan"), float("nan")
    scores = np.sort(scores, axis=0) if known.min() < len(scores) else scores  # NaN comes last
    rows = np.random.RandomState(seed).randint(np.maximum(known, 1), size=(reps, *scores.shape))
    resampled = np.take_along_axis(scores[None], rows, axis=1)[:, np.arange(len(scores))[:, None] < known]
    tail = 50 * (1 - confidence)
    low, high = np.percentile(trim_mean(resampled, 0.25, axis=1), (tail, 100 - tail))
    return float(low), float(high)


def bootstrap_coverage(runs: int, environments: int) -> float:
    """Return how often the 95 % interval of `bootstrap_interval` contains the true IQM of normal data.

    It depends on the number of runs (2 or more) and environments, by `BOOTSTRAP_COVERAGE`. Numbers between its entries
    use the next smaller entry. Raises ValueError for a single run, which has no interval, and for no environment.
    """
    if runs < 2 or environments < 1:
        raise ValueError(f"bootstrap_coverage: needs 2 runs and an environment, or more; got {runs}, {environments}")
    row = BOOTSTRAP_COVERAGE[max(n for n in BOOTSTRAP_COVERAGE if n <= runs)]
    return row[max(n for n in row if n <= environments)]


def learning_curve_area(steps: ArrayLike, returns: ArrayLike, start: float, end: float, bins: int = 20) -> float:
    """Return the area under a learning curve from step `start` to `end`, divided by its length: a mean return.

    The steps are cut into equal bins, (start, …], …, (…, end]. The value of a bin is the mean return of the episodes
    that ended in it. An empty bin has the value of the bin before it, or of the first bin with an episode. The area is
    the mean over bins. Every step therefore has the same weight, however long its episode was. NaN without an episode.

    Args:
        steps, returns: (episodes,), the environment step at which each episode ended, and its return.
        start, end: Environment steps, start < end.
        bins: Number of bins, at least 1.
    """
    at, values = as_array(steps), as_array(returns)
    inside = (at > start) & (at <= end)
    if not inside.any():
        return float("nan")
    places = np.ceil((at[inside] - start) * bins / (end - start)).astype(int) - 1
    count = np.bincount(places, minlength=bins)
    sums = np.bincount(places, weights=values[inside], minlength=bins)
    last = np.maximum.accumulate(np.where(count > 0, np.arange(bins), -1))
    last[last < 0] = places.min()
    return float((sums[last] / count[last]).mean())


def _bounds(values: Array, percentiles: tuple[float, float]) -> tuple[Array, Array]:
    """Return the percentiles of each column's finite entries; NaN if they are all equal up to rounding, or none."""
    bounds = np.full((2, values.shape[1]), np.nan)
    for i, column in enumerate(values.T):
        known = column[np.isfinite(column)]
        if known.size and not are_equal(known):
            bounds[:, i] = np.percentile(known, percentiles)
    return bounds[0], bounds[1]


def _normalize(values: Array, low: Array, high: Array) -> Array:
    span = high - low
    at_limit = np.where(np.isnan(values + span), np.nan, values > high)
    return np.clip(np.divide(values - low, span, out=at_limit, where=span > 0), 0.0, 1.0)
