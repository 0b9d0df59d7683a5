"""A study whose arms are tuned: a comparison of their points first, then one with each arm at its best."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from .comparison import Point, label_of
from .errors import UsageError
from .fields import as_text
from .fork import Variant
from .points import Values
from .search import Search
from .texts import fill, holes

if TYPE_CHECKING:
    from .study import Asked

TUNING = "tuning"  # the folder, in a study's own, of the points
Score = Callable[[str, Point, str], float | None]  # folder, point, measure → how good it is, None if not yet known


@dataclass(frozen=True)
class Tuned:
    """Say how arms were tuned: the rule, the measure, the points of each arm so far, and the chosen ones, by labels."""

    rule: Search
    measure: str
    tried: Mapping[str, Sequence[str]]
    chosen: Mapping[str, str]


@dataclass(frozen=True)
class Candidate:
    """An arm whose best point is searched. text: in which `{names}` may stand. inside: all that stand in some arm's."""

    text: str
    variant: Variant
    inside: Collection[str]

    def at(self, values: Values) -> Point:
        """Return it with these values: those that stand in no arm's text are settings of its own."""
        own = [f"{name}={as_text(value)}" for name, value in values.items() if name not in self.inside]
        return " + ".join([fill(self.text, values), *own]), self.variant


def tuned(search: Search, folder: str, asked: "Asked", score: Score) -> "dict[str, Asked]":
    """Return the comparison that arms are tuned by and, once that has ended, the one with each arm at its best.

    asked: with arms in which names of the search are left. Raises UsageError for what cannot be searched."""
    _check(search, asked)
    measure = search.measure or asked.kind.tuned_by
    if not measure:
        raise UsageError(f"search: by which number? measure = … (of {asked.kind.name} there is none by itself)")
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
        raise UsageError(f"search.seeds: results have seed {min(both)} too, and nothing is to be chosen on theirs")
    if asked.study.fork_at or asked.study.fork_at_task is not None:
        raise UsageError("search: arms that part from a trunk are not tuned; leave out fork_at and fork_at_task")
