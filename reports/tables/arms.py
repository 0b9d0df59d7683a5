"""Tables of all arms in all variants: means, interquartile means, and probabilities of improvement."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine.forks import FRESH
from ...experiments.comparisons.comparison import folder_of_arm
from ...experiments.sweeps.study import Published
from ...metrics import (
    bootstrap_coverage,
    bootstrap_interval,
    iqm,
    plasticity_score,
    probability_of_improvement,
    t_interval,
)
from .differences import Measure, Point
from .table import MISSING, BySeed, Table, estimate

Array = NDArray[np.float64]
MOST_PAIRS = 12  # arms in the table of pairs: with more it is unreadable


def group_by_name(measures: Iterable[Measure]) -> dict[str, list[Measure]]:
    """Return the measures by name, one per variant of the settings."""
    found: dict[str, list[Measure]] = {}
    for measure in measures:
        found.setdefault(measure.name, []).append(measure)
    return found


def group_by_family(measures: Iterable[Measure]) -> dict[str, list[Measure]]:
    """Return the measures by family, with all environments and variants."""
    found: dict[str, list[Measure]] = {}
    for measure in measures:
        found.setdefault(measure.family or measure.name, []).append(measure)
    return found


def scores_of(measure: Measure, arm: str) -> Array:
    """Return the finite numbers of an arm, of shape (seeds,). Shares are in %."""
    values = np.array(list(measure.arms[arm].values()), dtype=np.float64)
    return values[np.isfinite(values)] * (100.0 if measure.percent else 1.0)


def oriented_scores(measure: Measure, arm: str) -> Array:
    """Return the finite numbers of an arm, of shape (seeds,), negated if lower is better."""
    return scores_of(measure, arm) * (-1.0 if measure.lower_is_better else 1.0)


def point_of(measure: Measure, arm: str) -> Point:
    return measure.points.get(arm, (arm, {}))


def arms_table(measures: Sequence[Measure], shares: Sequence[Measure] = (), beside: Published | None = None) -> Table:
    """Return a table with one row per arm and variant.

    Its columns are the mean, the interquartile mean, the probability of improvement over the baseline, the share of a
    fresh agent, and the published number. Empty columns are left out.

    Args:
        measures: Measures of one name, one per variant.
        shares: As in `Content`.
        beside: Published numbers, or None.
    """
    cells = [(measure, arm) for measure in measures for arm in measure.arms]
    points = [point_of(measure, arm) for measure, arm in cells]
    varied = dict.fromkeys(name for _, variant in points for name in variant)
    first = measures[0]
    columns: dict[str, list[str]] = {
        "arm": [arm for arm, _ in points],
        **{name.replace("_", " "): [_value(variant.get(name)) for _, variant in points] for name in varied},
        "seeds": [str(scores_of(*cell).size) for cell in cells],
        "mean [95 %]": [_mean(scores_of(*cell)) for cell in cells],
        "IQM [95 %]": [_iqm(scores_of(*cell)) for cell in cells],
        f"P(better than {first.baselines[0]}) [95 %]": [_against(*cell) for cell in cells],
        "share of a fresh agent": [_share(shares, *cell) for cell in cells],
        **({"published": [_published(beside, point) for point in points]} if beside else {}),
    }
    shown = {name: texts for name, texts in columns.items() if set(texts) - {MISSING, ""}}
    words = [_words(first, [scores_of(*cell).size for cell in cells])]
    if "published" in shown and beside:
        words.append(f"Published: {beside.measure}, {beside.source}.")
    rows = [list(row) for row in zip(*shown.values(), strict=True)]
    return Table(first.name + (" (%)" if first.percent else ""), list(shown), rows, " ".join(words), turns=False)


def overall_table(family: str, measures: Sequence[Measure]) -> Table | None:
    """Return a table of interquartile means over environments, each scaled by its runs; None for one environment."""
    places = list(dict.fromkeys(measure.place for measure in measures))
    if len(places) < 2:
        return None
    whole: dict[tuple[str, str], Array] = {}
    points: dict[tuple[str, str], Point] = {}
    for variant in dict.fromkeys(measure.variant for measure in measures):
        own = [measure for measure in measures if measure.variant == variant]
        for arm in own[0].arms:
            matrix = np.array(
                [[measure.arms[arm].get(seed, np.nan) for measure in own] for seed in own[0].arms[arm]], dtype=float
            ).reshape(-1, len(own))
            matrix = matrix[np.isfinite(matrix).all(axis=1)] * (-1.0 if own[0].lower_is_better else 1.0)
            if matrix.size:
                whole[variant, arm], points[variant, arm] = matrix, point_of(own[0], arm)
    if not whole:
        return None
    found = plasticity_score({str(key): matrix for key, matrix in whole.items()}, floor=-np.inf)
    rows = []
    for key, matrix in whole.items():
        score = found[str(key)]
        text = estimate(score.iqm, (score.low, score.high) if len(matrix) > 1 else None)
        rows.append([", ".join(filter(None, [key[0], points[key][0]])), str(len(matrix)), text])
    words = (
        f"Interquartile mean over seeds and {len(places)} environments. Each environment is scaled so that 0 and 1 are "
        "the 5th and 95th percentile of the runs of this study. [ ]: 95 % stratified bootstrap interval."
    )
    return Table(f"{family}, all environments", ["arm", "seeds", "IQM [95 %]"], rows, words, turns=False)


def pairs_table(family: str, measures: Sequence[Measure]) -> Table | None:
    """Return a table of the probability of improvement of each arm over each other, over variants and environments.

    It is None for fewer than three arms, whose pairs are in the table of arms, and for too many to read.
    """
    arms = list(dict.fromkeys(arm for measure in measures for arm in measure.arms if arm != FRESH))
    if not 2 < len(arms) <= MOST_PAIRS:
        return None
    rows = [[row, *(_pair(measures, row, column) for column in arms)] for row in arms]
    words = (
        "Probability that a run of the row's arm ends better than a run of the column's arm, averaged over "
        f"{_count(measures)}. A tie counts as one half. [ ]: 95 % stratified bootstrap interval over seeds. Seeds are "
        "drawn independently for each arm, so this does not use that arms share seeds, unlike the paired differences."
    )
    return Table(f"Probability of improvement in {family}", ["better than →", *arms], rows, words, turns=False)


def _pair(measures: Sequence[Measure], row: str, column: str) -> str:
    if row == column:
        return MISSING
    both = [measure for measure in measures if row in measure.arms and column in measure.arms]
    return _improvement([(oriented_scores(measure, row), oriented_scores(measure, column)) for measure in both])


def _improvement(tasks: Sequence[tuple[Array, Array]]) -> str:
    known = [(x, y) for x, y in tasks if x.size and y.size]
    if not known:
        return MISSING
    found = probability_of_improvement(pad_columns([x for x, _ in known]), pad_columns([y for _, y in known]))
    return estimate(found.mean, None if found.low is None or found.high is None else (found.low, found.high))


def pad_columns(columns: Sequence[Array]) -> Array:
    """Return columns of different lengths as one array of shape (runs, tasks), filled with NaN."""
    whole = np.full((max(map(len, columns)), len(columns)), np.nan)
    for i, column in enumerate(columns):
        whole[: len(column), i] = column
    return whole


def _against(measure: Measure, arm: str) -> str:
    """Return the probability of improvement of an arm over the baseline of its variant, as text."""
    baseline = measure.baselines[0]
    return (
        MISSING
        if arm == baseline
        else _improvement([(oriented_scores(measure, arm), oriented_scores(measure, baseline))])
    )


def _share(shares: Sequence[Measure], measure: Measure, arm: str) -> str:
    own = next((each for each in shares if each.variant == measure.variant and arm in each.arms), None)
    return MISSING if own is None else _mean(scores_of(own, arm))


def _published(beside: Published, point: Point) -> str:
    value = beside.rows.get(folder_of_arm(*point))
    return MISSING if value is None else f"{value:g}".replace("-", "−")


def _mean(values: Array) -> str:
    if not values.size:
        return MISSING
    ends = t_interval(values)
    return BySeed.of(estimate(float(values.mean()), ends and (float(ends[0]), float(ends[1]))), values.tolist())


def _iqm(values: Array) -> str:
    if not values.size:
        return MISSING
    return estimate(iqm(values), bootstrap_interval(values[:, None]) if values.size > 1 else None)


def _value(value: Any) -> str:
    return MISSING if value is None else str(value)


def _count(measures: Sequence[Measure]) -> str:
    variants = len({measure.variant for measure in measures})
    places = len({measure.place for measure in measures})
    words = [f"{variants} variants" if variants > 1 else "", f"{places} environments" if places > 1 else ""]
    return " and ".join(filter(None, words)) or "their seeds"


def _words(measure: Measure, seeds: Sequence[int]) -> str:
    """Return a text about the columns and the coverage of intervals from so few seeds."""
    least = min((n for n in seeds if n > 1), default=1)
    if least == 1:
        return "1 seed: no interval; differences may be due to chance."
    less = " Lower is better." if measure.lower_is_better else ""
    return (
        "Mean: with Student's 95 % interval over seeds. IQM: interquartile mean with a stratified bootstrap interval, "
        f"which with {least} seeds contains the true value in about {100 * bootstrap_coverage(least, 1):.0f} % of "
        f"cases. P: probability that a run ends better than a run of {measure.baselines[0]}; a tie counts as one half "
        f"(rliable).{less}"
    )
