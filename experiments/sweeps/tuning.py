"""Studies with tuned arms: first a comparison of the points of each arm, then one with each arm at its best point."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ...engine.forks import Variant
from ...engine.kinds import as_text
from ...registry.errors import UsageError
from ..comparisons.comparison import Point, label_of
from .search import Search
from .space import Values
from .templates import fill, holes

if TYPE_CHECKING:
    from .study import Asked

TUNING = "tuning"  # the subfolder of a study for the comparison of points
Score = Callable[[str, Point, str], float | None]  # folder, point, measure → score, or None if not known yet


@dataclass(frozen=True)
class Tuned:
    """The tuning of arms: the rule, the measure, and for each arm the points so far and the chosen one, as labels."""

    rule: Search
    measure: str
    tried: Mapping[str, Sequence[str]]
    chosen: Mapping[str, str]


@dataclass(frozen=True)
class Candidate:
    """An arm to tune. `text` may contain `{names}`; `inside` has the names in the texts of all arms."""

    text: str
    variant: Variant
    inside: Collection[str]

    def at(self, values: Values) -> Point:
        """Return the arm with these values. Values that are in no arm's text become settings of this arm."""
        own = [f"{name}={as_text(value)}" for name, value in values.items() if name not in self.inside]
        return " + ".join([fill(self.text, values), *own]), self.variant


def tuned(search: Search, folder: str, asked: "Asked", score: Score) -> "dict[str, Asked]":
    """Return the comparison of points and, once it has ended, the one with each arm at its best point, by folder.

    In the arms of `asked`, names of the search are still in braces. Raises UsageError if the search is not possible.
    """
    _check(search, asked)
    measure = search.measure or asked.kind.tuned_by
    if not measure:
        raise UsageError(f"search: add measure = …, since {asked.kind.name} has no default measure")
    path, inside = f"{folder}/{TUNING}", {name for arm, _ in asked.points for name in holes(arm)}
    tried: dict[str, list[Point]] = {}
    best: dict[str, Point] = {}
    for arm, variant in asked.points:
        own = [name for name in search.values if name in holes(arm) or name not in inside]
        at = Candidate(arm, variant, inside).at
        points, chosen = search.tried(own, partial(_score, score, path, at, measure))
        tried[label_of(arm, variant)] = list(map(at, points))
        if chosen is not None:
            best[label_of(arm, variant)] = at(chosen)
    settings = asked.settings
    if hasattr(settings, "seeds"):
        settings = replace(settings, **dict[str, Any](seeds=search.seeds))
    labels = {arm: [label_of(*point) for point in points] for arm, points in tried.items()}
    early = replace(
        asked,
        settings=settings,
        seeds=search.seeds,
        points=[point for own in tried.values() for point in own],
        stop_at=search.share,
        tuned=Tuned(search, measure, labels, {arm: label_of(*point) for arm, point in best.items()}),
    )
    return {path: early} | ({folder: replace(asked, points=list(best.values()))} if len(best) == len(tried) else {})


def _score(score: Score, path: str, at: Callable[[Values], Point], measure: str, values: Values) -> float | None:
    return score(path, at(values), measure)


def _check(search: Search, asked: "Asked") -> None:
    search.check()
    if both := set(search.seeds) & set(asked.seeds):
        raise UsageError(f"search.seeds: seed {min(both)} is also a seed of the results; use other seeds to tune")
    if asked.study.fork_at or asked.study.fork_at_task is not None:
        raise UsageError("search: forked arms cannot be tuned; leave out fork_at and fork_at_task")
