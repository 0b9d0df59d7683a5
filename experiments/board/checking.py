"""Check a submitted row against the results of training its runs again."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from .row import Result, Row
from .scoring import MEASURES, SuiteMeasure, suite, sum_of

LEVEL = (
    0.0025  # chance that scores of an honest row from elsewhere leave one bound, if scores have a normal distribution
)
FINEST = 20  # a standard deviation below a study's largest / FINEST counts as that one, since few seeds can agree
LONG, TIMES, SHORT_TIMES = 60.0, 5.0, 25.0  # largest ratio of two costs, for new runs of at least 60 seconds or shorter
SLOWER = 100.0  # largest ratio of two times of training, on whatever machines


def disagreements(before: Row, now: Row) -> dict[str, str]:
    """Return the disagreements between a row and a new row of the same method, by study of the new row.

    With the same code, versions and machine, the scores of each seed must be equal. Otherwise they may be other
    samples of the same distribution, and must lie within `bounds`, which depend on the new runs only.
    """
    found: dict[str, str] = {}
    if others := {name: sha for name, sha in before.plugins.items() if now.plugins.get(name) != sha}:
        name, sha = next(iter(others.items()))
        return dict.fromkeys(now.results, f"the row is of another {name}, with the SHA-256 sum {sha[:12]}…")
    for study in suite(tuple(now.results)):
        if (own := before.results.get(study.name)) is None:
            found[study.name] = "the row does not have this study"
        elif own.settings != sum_of(study):
            found[study.name] = "the row belongs to another suite: its settings are not those of bench.toml"
        elif words := _of_study(own, now.results[study.name], MEASURES[study.name], not differences(before, now)):
            found[study.name] = words
    known = {study.name for study in suite()}
    return found | {name: "the suite has no such study" for name in before.results if name not in known}


def differences(before: Row, now: Row) -> list[str]:
    """Return what differs between how a row and a new row were trained: code, versions, machine and plug-ins."""
    pairs = {
        "code": (before.code, now.code),
        **{name: (before.versions.get(name), now.versions.get(name)) for name in {**before.versions, **now.versions}},
        "machine": (before.machine, now.machine),
        **{name: (before.plugins.get(name), now.plugins.get(name)) for name in {**before.plugins, **now.plugins}},
    }
    return [f"{name} {old or 'none'} → {new or 'none'}" for name, (old, new) in pairs.items() if old != new]


@dataclass(frozen=True)
class Bounds:
    """The largest distances of an honest row's scores from new scores of the same method.

    Attributes:
        seed: Of one score, from the mean of the new scores.
        mean: Of the mean over seeds, from that mean.
        least, most: The smallest and the largest standard deviation over seeds.
    """

    seed: float
    mean: float
    least: float
    most: float


def bounds(scores: Sequence[float], spread: float) -> Bounds:
    """Return the bounds for as many scores from elsewhere, at the level 0.0025 each.

    The standard deviation of a method's scores is known from few seeds only. Each bound is therefore Student's (or, for
    standard deviations, that of Fisher's F), or the bound for the known standard deviation `spread` if that is smaller.

    Args:
        scores: The new scores.
        spread: The largest standard deviation of a method in this study.
    """
    from scipy.stats import chi2, f, norm, t  # takes half a second to import

    n = len(scores)
    own = stdev(scores) if n > 1 else 0.0
    high, own = max(own, spread), max(own, spread / FINEST)
    one, both, wide, far = LEVEL / n / 2, LEVEL / 2, (1 + 1 / n) ** 0.5, (2 / n) ** 0.5
    if n < 2:
        return Bounds(norm.isf(one) * high * wide, norm.isf(both) * high * far, 0.0, high)
    ratio = f.isf(both, n - 1, n - 1) ** 0.5
    return Bounds(
        seed=min(t.isf(one, n - 1) * own, norm.isf(one) * high) * wide,
        mean=min(t.isf(both, n - 1) * own, norm.isf(both) * high) * far,
        least=own / ratio if own > spread / FINEST else 0.0,
        most=min(ratio * own, (chi2.isf(both, n - 1) / (n - 1)) ** 0.5 * high),
    )


def _of_study(own: Result, again: Result, measure: SuiteMeasure, same: bool) -> str | None:
    """Return how a study's scores disagree with the new ones, or None. `same`: the numbers should be equal."""
    if own.scores.keys() != again.scores.keys():
        return f"the row has seeds {', '.join(own.scores)}, but the suite {', '.join(again.scores)}"
    if own.failed != again.failed:
        return f"{own.failed} of the row's runs failed, but {again.failed} of the new ones"
    for seed, score in own.scores.items():
        if score is not None and not measure.low <= score <= measure.high:
            return f"seed {seed} has {score:.6g}, but scores lie between {measure.low:g} and {measure.high:g}"
    if same:
        wrong = [seed for seed, score in own.scores.items() if score != again.scores[seed]]
        if wrong:
            return f"seed {wrong[0]} has {_number(own, wrong[0])}, but the new run {_number(again, wrong[0])}"
    elif words := _apart(own, again, measure):
        return words
    return _of_costs(own, again)


def _number(result: Result, seed: str) -> str:
    score = result.scores[seed]
    return "failed" if score is None else f"{score:.6f}"


def _apart(own: Result, again: Result, measure: SuiteMeasure) -> str | None:
    """Return which of the bounds the scores exceed, or None."""
    scores = {seed: score for seed, score in own.scores.items() if score is not None}
    new = [score for score in again.scores.values() if score is not None]
    if not new:
        return None
    limits, middle = bounds(new, measure.spread), fmean(new)
    for seed, score in scores.items():
        if abs(score - middle) > limits.seed:
            return (
                f"seed {seed} has {score:.6g}, but the new runs allow {middle - limits.seed:.4g} to "
                f"{middle + limits.seed:.4g}"
            )
    far = fmean(scores.values()) - middle
    if abs(far) > min(limits.mean, _paired(own, again, measure)):
        return f"the mean over seeds differs by {far:+.3g} from that of the new runs, more than by chance"
    apart = stdev(scores.values()) if len(scores) > 1 else 0.0
    if not limits.least <= apart <= limits.most:
        return (
            f"the standard deviation over seeds is {apart:.3g}, but the new runs allow {limits.least:.3g} to "
            f"{limits.most:.3g}"
        )
    return None


def _paired(own: Result, again: Result, measure: SuiteMeasure) -> float:
    """Return how far the mean may be off judging by the differences between equal seeds, at least the finest spread.

    If rows nearly agree, as those of classifiers on another processor do, this is much less than `Bounds.mean`. It is
    never used alone, since a single changed score would widen it.
    """
    from scipy.stats import t

    pairs = [(old, again.scores[seed]) for seed, old in own.scores.items()]
    apart = [old - new for old, new in pairs if old is not None and new is not None]
    if len(apart) < 2:
        return float("inf")
    half: float = t.isf(LEVEL / 2, len(apart) - 1) * stdev(apart) / len(apart) ** 0.5
    return max(half, measure.spread / FINEST)


def _of_costs(own: Result, again: Result) -> str | None:
    """Return how the times of a study are impossible, or None. They are never equal, even on one machine.

    How closely they are compared depends on the new runs only: the row's own times could be chosen to avoid it.
    """
    if own.seconds <= 0 or (own.cost is not None and own.cost <= 0):
        return f"seconds and cost must be positive, got {own.seconds} and {own.cost}"
    if not _alike(own.seconds, again.seconds, SLOWER):
        return f"its runs took {own.seconds:g} seconds, but the new ones {again.seconds:g}"
    if again.cost is None:
        return None
    if own.cost is None:
        return f"the row has no cost, but the new runs have {again.cost:g}"
    alike = _alike(own.cost, again.cost, TIMES if again.seconds >= LONG else SHORT_TIMES)
    return None if alike else f"the cost is {own.cost:g}, but {again.cost:g} for the new runs"


def _alike(one: float, other: float, times: float) -> bool:
    return one <= times * other and other <= times * one
