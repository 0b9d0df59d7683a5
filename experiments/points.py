"""The points of a sweep: every combination of a grid, those of a list, and some that are drawn at random."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import exp, log
from typing import Any

import numpy as np

from .errors import UsageError

Values = Mapping[str, Any]  # of one point, by name
DIGITS = 4  # significant ones of a number that is drawn: folders are named by it


@dataclass(frozen=True)
class Range:
    """Numbers between two others, both included: uniform, or with `log` uniform in their logarithm; whole ones where
    both ends are."""

    low: int | float
    high: int | float
    log: bool = False

    def draw(self, generator: np.random.Generator) -> int | float:
        low, high = (log(self.low), log(self.high)) if self.log else (self.low, self.high)
        if isinstance(self.low, int) and isinstance(self.high, int):
            if not self.log:
                return int(generator.integers(self.low, self.high, endpoint=True))
            return min(max(round(exp(generator.uniform(low, high))), self.low), self.high)
        drawn = generator.uniform(low, high)
        return self.rounded(exp(drawn) if self.log else drawn)

    def rounded(self, number: int | float) -> int | float:
        """Return a number as folders are named by it, within these bounds."""
        near = number if isinstance(number, int) else float(f"{number:.{DIGITS}g}")
        return min(max(near, self.low), self.high)

    def problem(self) -> str | None:
        """Return why nothing can be drawn between these, or None."""
        if not self.low < self.high:
            return f"low must be below high, got {self.low:g} and {self.high:g}"
        return "with log both ends must be above 0" if self.log and self.low <= 0 else None


@dataclass(frozen=True)
class Choice:
    """One of several values, each as likely."""

    choice: tuple[Any, ...]

    def draw(self, generator: np.random.Generator) -> Any:
        return self.choice[int(generator.integers(len(self.choice)))]

    def problem(self) -> str | None:
        """Return why nothing can be drawn from these, or None."""
        return None if self.choice else "choice is empty"


@dataclass(frozen=True)
class Random:
    """So many points whose values are drawn. Point i depends on `seed` and i alone: a larger `count` adds points."""

    count: int
    values: Mapping[str, Range | Choice]
    seed: int = 0

    def draw(self) -> list[dict[str, Any]]:
        generators = [np.random.default_rng([self.seed, i]) for i in range(self.count)]
        return [{name: each.draw(generator) for name, each in self.values.items()} for generator in generators]


@dataclass(frozen=True)
class Space:
    """The values that a sweep takes. Its points are every combination of the grid with every point of the list and with
    every point that is drawn; of what is empty there is one point, without values."""

    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    listed: Sequence[Values] = ()
    random: Random | None = None

    def points(self) -> list[Values]:
        """Return the points, each once. Raises UsageError for one that has a value from two sources, an empty grid, and
        ranges that hold nothing."""
        for name, values in self.grid.items():
            if not values:
                raise UsageError(f"grid.{name} is empty: give the values that it takes")
            if any(value in values[:i] for i, value in enumerate(values)):
                raise UsageError(f"grid.{name} has a value twice")
        for name, each in self.random.values.items() if self.random else ():
            if problem := each.problem():
                raise UsageError(f"random.{name}: {problem}")
        grid = [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]
        drawn = self.random.draw() if self.random else [{}]
        found: list[Values] = []
        for parts in product(self.listed or [{}], grid, drawn):
            names = [name for part in parts for name in part]
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise UsageError(f"{twice} is given twice: by two of points, grid and random")
            found.append({name: value for part in parts for name, value in part.items()})
        keys = [repr(sorted(point.items(), key=lambda item: item[0])) for point in found]
        return list(dict(zip(reversed(keys), reversed(found), strict=True)).values())[::-1]
