"""Studies with tuned arms: first a comparison of the points of each arm, then one with each arm at its best point."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from supple.engine.forks import FRESH
from supple.engine.kinds import as_text, require_setting
from supple.experiments.comparisons.comparison import Comparison
from supple.experiments.comparisons.grid import Point
from supple.registry.errors import UsageError

from .search import Search
from .space import Values
from .templates import fill, holes

TUNING = "tuning"  # the subfolder of a study for the comparison of points
Score = Callable[[str, Point, str], float | None]  # folder, point, measure → score, or None if not known yet


@dataclass(frozen=True)
class Tuning:
    """The tuning of arms: the rule, the measure, and for each arm the points so far and the chosen one, as labels."""

    rule: Search
    measure: str
    tried: Mapping[str, Sequence[str]]
    chosen: Mapping[str, str]


Comparisons = dict[str, tuple[Comparison, Tuning | None]]  # by folder, each with the tuning that it serves


def tune(search: Search, folder: str, comparison: Comparison, score: Score) -> Comparisons:
    """Return the comparison of points and, once it has ended, the one with each arm at its best point, by folder.

    Args:
        search: The rule by which points are chosen.
        folder: The folder of the comparison inside the sweep.
        comparison: The arms to tune. Names of the search are still in braces in their texts.
        score: Returns the score of a point, or None if it is not known yet.

    Raises:
        UsageError: The search is not possible.
    """
    in_texts = {name for point in comparison.points for name in holes(point.arm)}
    search.check()
    for name in search.values.keys() - in_texts:
        require_setting(comparison.kind_row, name)
    if both := set(search.seeds) & set(comparison.seeds):
        raise UsageError(f"search.seeds: seed {min(both)} is also a seed of the results; use other seeds to tune")
    if comparison.fork_at or comparison.fork_at_task is not None:
        raise UsageError("search: forked arms cannot be tuned; leave out fork_at and fork_at_task")
    measure = search.measure or comparison.kind_row.tuned_by
    if not measure:
        raise UsageError(f"search: add measure = …, since {comparison.kind} has no default measure")
    path = f"{folder}/{TUNING}"
    references = [point for point in comparison.points if point.arm == FRESH]
    templates = [point for point in comparison.points if point.arm != FRESH]
    tried: dict[str, list[Point]] = {}
    best: dict[str, Point] = {}
    for template in templates:
        searched = [name for name in search.values if name in holes(template.arm) or name not in in_texts]

        def at(values: Values, template: Point = template) -> Point:
            """Return the arm with these values. Those that are in no arm's text become settings of this arm."""
            settings = [f"{name}={as_text(value)}" for name, value in values.items() if name not in in_texts]
            return Point(" + ".join([fill(template.arm, values), *settings]), template.variant)

        def score_at(values: Values, at: Callable[[Values], Point] = at) -> float | None:
            return score(path, at(values), measure)

        points, chosen = search.choose(searched, score_at)
        tried[template.label] = list(map(at, points))
        if chosen is not None:
            best[template.label] = at(chosen)
    labels = {label: [point.label for point in points] for label, points in tried.items()}
    early = replace(
        comparison,
        seeds=search.seeds,
        stacks=(),
        points=tuple(point for points in tried.values() for point in points),
        stop_at=search.share,
    )
    tuning = Tuning(search, measure, labels, {label: point.label for label, point in best.items()})
    if len(best) < len(tried):
        return {path: (early, tuning)}
    return {path: (early, tuning), folder: (replace(comparison, points=(*best.values(), *references)), None)}
