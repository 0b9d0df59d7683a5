"""What the cells of tables hold: numbers, intervals, lists by seed and texts, and how these are shown."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import floor, isfinite, isinf, isnan, log10
from typing import Self

import numpy as np

from supple.metrics import Score

from .statistics import Spread

MISSING = "–"
Scalar = str | float | None


@dataclass(frozen=True)
class Form:
    """The form in which numbers are shown. It changes the text of a cell, and never its number.

    Attributes:
        digits: About how many digits a number has. An interval has two digits of its half width instead.
        decimals: The exact number of digits after the point, or None for that rule.
        scale: The factor with which numbers are shown: 100 for shares in %.
        unit: What follows a number, if its heading does not say it.
    """

    digits: int = 3
    decimals: int | None = None
    scale: float = 1.0
    unit: str = ""

    def text(self, value: float | None) -> str:
        """Return a number as text; a dash if there is none."""
        if value is None or not isfinite(value):
            return MISSING
        value *= self.scale
        if self.decimals is None:
            return number(value, self.digits) + self.unit
        return with_minus(f"{round(value, self.decimals) + 0.0:.{self.decimals}f}{self.unit}")  # no −0

    def interval(self, mean: float, low: float | None, high: float | None) -> str:
        """Return a mean and its interval as text, such as `112 [85, 139]`; the mean alone if there is no interval."""
        if low is None or high is None or not isfinite(mean):
            return self.text(mean)
        if isinf(low) or isinf(high):
            return f"{self.text(mean)} (not bounded)"
        if self.decimals is None:
            return estimate(self.scale * mean, (self.scale * low, self.scale * high))
        return f"{self.text(mean)} [{self.text(low)}, {self.text(high)}]"


@dataclass(frozen=True)
class PForm(Form):
    """P-values: `.034`, or `< .001`."""

    def text(self, value: float | None) -> str:
        if value is None or isnan(value):
            return MISSING
        return "< .001" if value < 0.001 else f"{value:.3f}".removeprefix("0")


@dataclass(frozen=True)
class UpTo100(Form):
    """Counts up to 100, above which they are shown as `> 100`. NaN stands for a count that is too large to know."""

    def text(self, value: float | None) -> str:
        return f"{value:.0f}" if value is not None and value <= 100 else "> 100"


PLAIN, PERCENT, SETTING, P_VALUE = Form(), Form(decimals=2, scale=100.0), Form(digits=6), PForm()


@dataclass(frozen=True)
class Label:
    """A text that pages show in another way than CSV files, such as with its unit: `accuracy` as `accuracy (%)`."""

    plain: str
    shown: str

    def __str__(self) -> str:
        return self.shown

    def parts(self) -> dict[str, Scalar]:
        return {"": self.plain}


@dataclass(frozen=True)
class Number:
    """A number, often a mean with the ends of its interval, which are None if there is none.

    `by_seed` is shown under the pointer. `seeds` says of how many seeds the mean is, if some are missing.
    """

    mean: float
    low: float | None = None
    high: float | None = None
    by_seed: Mapping[int, float] = field(default_factory=dict)
    form: Form = PLAIN
    seeds: str = ""

    @classmethod
    def of(cls, spread: Spread, form: Form = PLAIN) -> Self:
        """Return the mean over seeds with Student's 95 % interval."""
        low, high = spread.interval or (None, None)
        return cls(spread.mean, low, high, spread.by_seed, form, some_of(spread.known.size, len(spread.values)))

    @classmethod
    def of_score(cls, score: Score, form: Form = PLAIN) -> Self:
        """Return an interquartile mean with its bootstrap interval, which a single run and equal ones do not have."""
        low, high = (score.low, score.high) if score.low < score.high else (None, None)
        known = np.isfinite(score.normalized).sum(axis=0).tolist()
        return cls(
            score.iqm, low, high, form=form, seeds=some_of(min(filter(None, known), default=0), len(score.normalized))
        )

    def __str__(self) -> str:
        return self.form.interval(self.mean, self.low, self.high) + self.seeds

    def parts(self) -> dict[str, Scalar]:
        ends: dict[str, Scalar] = {} if self.low is None else {" low": self.low, " high": self.high}
        return {"": self.mean} | ends


@dataclass(frozen=True)
class BySeed:
    """A number for each seed."""

    numbers: Mapping[int, float]
    form: Form = PLAIN

    def __str__(self) -> str:
        return ", ".join(map(self.form.text, self.numbers.values()))

    def parts(self) -> dict[str, Scalar]:
        return {f", seed {seed}": value for seed, value in self.numbers.items()}


@dataclass(frozen=True)
class Pair:
    """Two numbers that are shown in one cell, such as those before and after an intervention.

    Attributes:
        first, second: The numbers; None or NaN if they were not measured.
        words: What is added to the heading of each in a CSV file.
        shown: The text for both, with two `{}`.
        form: How each is shown.
    """

    first: float | None
    second: float | None
    words: tuple[str, str] = (" before", " after")
    shown: str = "{} → {}"
    form: Form = PLAIN

    def __str__(self) -> str:
        first, second = self.form.text(self.first), self.form.text(self.second)
        return MISSING if first == second == MISSING else self.shown.format(first, second)

    def parts(self) -> dict[str, Scalar]:
        return dict(zip(self.words, (self.first, self.second), strict=True))


# What a cell holds: None stands for nothing that was measured.
Value = Scalar | Label | Number | BySeed | Pair
Heading = str | Label


def percent(text: str) -> Label:
    """Return the heading of shares that pages show in %, and CSV files as shares."""
    return Label(text, f"{text} (%)")


def show(value: Value) -> str:
    """Return what a cell holds as the text that pages, terminals and LaTeX show."""
    if value is None:
        return MISSING
    if isinstance(value, int):
        return with_minus(f"{value:,}")
    return number(value) if isinstance(value, float) else str(value)


def parts(value: Value) -> dict[str, Scalar]:
    """Return the texts and numbers of a cell, by what each adds to its heading in a CSV file."""
    if value is None:
        return {}
    return {"": value} if isinstance(value, (str, int, float)) else value.parts()


def first_number(value: Value) -> float | None:
    """Return the number by which a page sorts a cell; None for a text, or if the number is missing."""
    found = next(iter(parts(value).values()), None)
    return found if isinstance(found, (int, float)) and isfinite(found) else None


def hover(value: Value) -> str:
    """Return the numbers of each seed behind a cell as text; "" if there are fewer than two."""
    if not isinstance(value, Number) or len(value.by_seed) < 2:
        return ""
    return ", ".join(f"seed {seed}: {number(value.form.scale * x, 4)}" for seed, x in value.by_seed.items())


def some_of(known: int, seeds: int) -> str:
    """Return ` (2 of 3 seeds)`, or "" if all have a number, or none."""
    return f" ({known} of {seeds} seeds)" if 0 < known < seeds else ""


def is_missing(value: Value) -> bool:
    return show(value) in (MISSING, "")


def number(value: float | None, digits: int = 3) -> str:
    """Return a number as text with about `digits` digits and a true minus sign, or a dash if it was not measured."""
    if not isinstance(value, (int, float)) or not isfinite(value):
        return MISSING
    value += 0.0  # no −0
    large = abs(value) >= 10 ** (digits - 1)
    return with_minus(f"{value:,.0f}" if large and abs(value) < 1e7 else f"{value:.{digits}g}")


def estimate(mean: float, ends: tuple[float, float]) -> str:
    """Return a mean and its interval as text, `112 [85, 139]`, rounded to two digits of the interval's half width."""
    low, high = ends
    half, largest = (high - low) / 2, max(abs(low), abs(high))
    if half <= 1e-6 * largest or not 1e-3 <= largest < 1e7:
        return f"{number(mean)} [{number(low)}, {number(high)}]"
    digits = min(6, max(0, 1 - floor(log10(half))))
    mean, low, high = (round(value, digits) + 0.0 for value in (mean, low, high))  # no −0
    return with_minus(f"{mean:,.{digits}f} [{low:,.{digits}f}, {high:,.{digits}f}]")


def with_minus(text: str) -> str:
    """Return the text of a number with a true minus sign."""
    return text.replace("-", "−")
