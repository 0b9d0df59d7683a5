"""The points of a sweep: all combinations of a grid, listed points, and randomly drawn points."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import exp, log
from typing import Any

import msgspec
import numpy as np

from supple.experiments.comparisons.grid import remove_repeats
from supple.registry.errors import UsageError

Values = Mapping[str, Any]  # the values of one point, by name
DIGITS = 4  # significant digits of drawn numbers, which are part of folder names


class Range(msgspec.Struct, frozen=True, tag=True):
    """A range of numbers from `low` to `high`, both included.

    Numbers are drawn uniformly or, with `log`, uniformly in their logarithm. They are integers if both ends are.
    """

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
        return self.round(exp(drawn) if self.log else drawn)

    def round(self, number: int | float) -> int | float:
        """Return a number rounded to 4 significant digits (integers are not rounded), within the range."""
        near = number if isinstance(number, int) else float(f"{number:.{DIGITS}g}")
        return min(max(near, self.low), self.high)

    def problem(self) -> str | None:
        """Return the reason why nothing can be drawn from this range, or None."""
        if not self.low < self.high:
            return f"low must be below high, got {self.low:g} and {self.high:g}"
        return "with log, both ends must be above 0" if self.log and self.low <= 0 else None


class Choice(msgspec.Struct, frozen=True, tag=True):
    """A choice of values with equal probabilities."""

    choice: tuple[Any, ...]

    def draw(self, generator: np.random.Generator) -> Any:
        return self.choice[int(generator.integers(len(self.choice)))]

    def problem(self) -> str | None:
        """Return the reason why nothing can be drawn, or None."""
        return None if self.choice else "choice is empty"


@dataclass(frozen=True)
class Random:
    """`count` randomly drawn points. Point i depends only on `seed` and i, so that a larger `count` adds points."""

    count: int
    values: Mapping[str, Range | Choice]
    seed: int = 0

    def draw(self) -> list[dict[str, Any]]:
        generators = [np.random.default_rng([self.seed, i]) for i in range(self.count)]
        return [{name: each.draw(generator) for name, each in self.values.items()} for generator in generators]


@dataclass(frozen=True)
class Space:
    """The values that a sweep varies.

    Its points are all combinations of a point of the grid, a listed point and a drawn point. An empty source counts as
    one point without values.
    """

    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    listed: Sequence[Values] = ()
    random: Random | None = None

    def points(self) -> list[Values]:
        """Return the points without repetitions.

        Raises:
            UsageError: A name has values from two sources, or a grid, range or choice is empty.
        """
        for name, values in self.grid.items():
            if not values:
                raise UsageError(f"{name} is empty: give at least one value")
            if len(remove_repeats(values)) < len(values):
                raise UsageError(f"{name}: a value is given twice")
        for name, each in self.random.values.items() if self.random else ():
            if problem := each.problem():
                raise UsageError(f"random.{name}: {problem}")
        grid = [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]
        drawn = self.random.draw() if self.random else [{}]
        found: list[Values] = []
        for parts in product(self.listed or [{}], grid, drawn):
            names = [name for part in parts for name in part]
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise UsageError(f"{twice} is given twice, by two of points, grid and random")
            found.append({name: value for part in parts for name, value in part.items()})
        return remove_repeats(found)
