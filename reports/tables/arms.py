"""Tables of all arms in all variants: means, interquartile means, and probabilities of improvement."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain, zip_longest

import numpy as np

from supple.engine.forks import FRESH
from supple.experiments.comparisons.grid import Point, variant_text
from supple.experiments.sweeps.study import Published
from supple.metrics import Array, bootstrap_coverage, plasticity_score, probability_of_improvement
from supple.metrics.scores import aggregate

from .cells import SETTING, Label, Number, Value
from .differences import Measure, group_by, name_baselines
from .table import Columns, Table, over_seeds

MOST_PAIRS = 12  # arms in the table of pairs: with more it is unreadable


def group_by_family(measures: Iterable[Measure]) -> dict[str, list[Measure]]:
    """Return the measures by family, with all environments and variants."""
    return group_by(measures, lambda measure: measure.group)


def oriented_scores(measure: Measure, arm: str) -> Array:
    """Return the finite numbers of an arm, of shape (seeds,), negated if lower is better."""
    return measure.spread(arm).known * (-1.0 if measure.lower_is_better else 1.0)


def point_of(measure: Measure, arm: str) -> Point:
    return Point(*measure.points.get(arm, (arm, {})))


def arms_table(measures: Sequence[Measure], published: Published | None = None) -> Table:
    """Return a table with one row per arm and variant.

    Its columns are the mean, the interquartile mean, the probability of improvement over the baseline, the share of a
    fresh agent, and the published number. Empty columns are left out.

    Args:
        measures: Measures of one name, one per variant.
        published: Published numbers, or None.
    """
    cells = [(measure, arm) for measure in measures for arm in measure.arms]
    points = [point_of(measure, arm) for measure, arm in cells]
    spreads = [measure.spread(arm) for measure, arm in cells]
    varied = dict.fromkeys(chain.from_iterable(variant for _, variant in points))
    first = measures[0]
    baselines = name_baselines(measures)
    columns: Columns = {
        "arm": [arm for arm, _ in points],
        **{name.replace("_", " "): setting_cells(points, name) for name in varied},
        "seeds": [spread.known.size for spread in spreads],
        _with_level("mean"): [Number.of(spread, first.form) for spread in spreads],
        _with_level("IQM"): [_iqm(measure, spread.known) for (measure, _), spread in zip(cells, spreads, strict=True)],
        _with_level(f"P(better than {baselines})"): [_improvement([m], arm, m.baselines[0]) for m, arm in cells],
        "share of a fresh agent": [measure.shares.get(arm) for measure, arm in cells],
        "published": [published.rows.get(point.key) if published else None for point in points],
    }
    words = _explanation(first, baselines, [spread.known.size for spread in spreads])
    return Table.from_columns(str(first.heading), columns, words, turns=False, about=_about(published))


def overall_table(family: str, measures: Sequence[Measure], published: Published | None = None) -> Table | None:
    """Return a table of interquartile means over environments, each scaled by its runs; None for one environment.

    Args:
        family: The name of the measures.
        measures: Measures of one family, in all environments and variants.
        published: Published numbers, or None.
    """
    environments = {measure.place for measure in measures}
    if len(environments) < 2:
        return None
    points, matrices = [], []
    for of_variant in group_by(measures, lambda measure: measure.variant).values():
        for arm in of_variant[0].arms:
            matrix = _complete_scores(of_variant, arm)
            if matrix.size:
                points.append(point_of(of_variant[0], arm))
                matrices.append(matrix)
    if not matrices:
        return None
    scores = plasticity_score({str(i): matrix for i, matrix in enumerate(matrices)}, floor=-np.inf)
    if np.isnan([score.iqm for score in scores.values()]).all():
        return None
    columns: Columns = {
        "arm": [", ".join(filter(None, [variant_text(point.variant), point.arm])) for point in points],
        "seeds": list(map(len, matrices)),
        _with_level("IQM"): list(map(Number.of_score, scores.values())),
        "published": [published.rows.get(point.key) if published else None for point in points],
    }
    words = (
        f"Interquartile mean over seeds and {len(environments)} environments. Each environment is scaled so that 0 and "
        f"1 are the 5th and 95th percentile of the runs of this study. [ ]: 95 % stratified bootstrap interval."
    )
    return Table.from_columns(f"{family}, all environments", columns, words, turns=False, about=_about(published))


def _about(published: Published | None) -> dict[str, str]:
    return {"published": f"Published: {published.measure}, {published.source}."} if published else {}


def _complete_scores(measures: Sequence[Measure], arm: str) -> Array:
    """Return the scores of an arm, higher is better, of shape (seeds, measures), for seeds with a score in all."""
    scores = np.full((len(measures[0].arms[arm]), len(measures)), np.nan)
    for column, measure in zip(scores.T, measures, strict=True):
        column[:] = [measure.arms[arm].get(seed, np.nan) for seed in measures[0].arms[arm]]
    return scores[np.isfinite(scores).all(axis=1)] * (-1.0 if measures[0].lower_is_better else 1.0)


def pairs_table(family: str, measures: Sequence[Measure]) -> Table | None:
    """Return a table of the probability of improvement of each arm over each other, over variants and environments.

    It is None for fewer than three arms, whose pairs are in the table of arms, and for too many to read.
    """
    arms = list(dict.fromkeys(arm for measure in measures for arm in measure.arms if arm != FRESH))
    if not 2 < len(arms) <= MOST_PAIRS:
        return None
    rows = [[arm, *map(partial(_improvement, measures, arm), arms)] for arm in arms]
    words = (
        "Probability that a run of the row's arm ends better than a run of the column's arm, averaged over "
        "variants and environments. A tie counts as one half. [ ]: 95 % stratified bootstrap interval over seeds. "
        "Seeds are drawn independently for each arm, so this does not use that arms share seeds, unlike the paired "
        "differences."
    )
    title = f"Probability of improvement in {family}"
    return Table(title, ["better than →", *arms], rows, words, turns=False)


def _improvement(measures: Sequence[Measure], arm: str, other: str) -> Number | None:
    """Return the probability that a run of an arm is better than one of another, averaged over measures."""
    both = [measure for measure in measures if {arm, other} <= measure.arms.keys() and arm != other]
    pairs = [(oriented_scores(measure, arm), oriented_scores(measure, other)) for measure in both]
    known = [(x, y) for x, y in pairs if x.size and y.size]
    if not known:
        return None
    p = probability_of_improvement(pad_columns([x for x, _ in known]), pad_columns([y for _, y in known]))
    return Number(p.mean, p.low, p.high)


def pad_columns(columns: Sequence[Array]) -> Array:
    """Return columns of different lengths as one array of shape (runs, tasks), filled with NaN."""
    rows = zip_longest(*columns, fillvalue=np.nan)
    return np.array(list(rows), dtype=float).reshape(-1, len(columns))


def _iqm(measure: Measure, scores: Array) -> Number | None:
    return Number.of_score(aggregate(scores[:, None]), measure.form) if scores.size else None


def _with_level(text: str) -> Label:
    return Label(text, f"{text} [95 %]")


def setting_cells(points: Sequence[Point], name: str) -> list[Value]:
    """Return the values of a setting that is varied, one per point."""
    values = [point.variant.get(name) for point in points]
    return [
        Number(value, form=SETTING) if isinstance(value, (int, float)) and not isinstance(value, bool)
        else None if value is None else str(value)
        for value in values
    ]  # fmt: skip


def _explanation(measure: Measure, baselines: str, seeds: Sequence[int]) -> str:
    """Return a text about the columns and the coverage of intervals from so few seeds."""
    least = min((n for n in seeds if n > 1), default=1)
    if least == 1:
        return over_seeds(1)
    less = " Lower is better." if measure.lower_is_better else ""
    return (
        "Mean: with Student's 95 % interval over seeds. IQM: interquartile mean with a stratified bootstrap interval, "
        f"which with {least} seeds contains the true value in about {100 * bootstrap_coverage(least, 1):.0f} % of "
        f"cases. P: probability that a run ends better than a run of {baselines}; a tie counts as one half "
        f"(rliable).{less}"
    )
