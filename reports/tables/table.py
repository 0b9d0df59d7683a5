"""Tables for the page and the terminal, numbers as text, reset contracts, and the list of events."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ...experiments.history.collect import ComparisonData, Row

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table as RichTable

MISSING = "–"
NAME, WORD = 24, 12  # characters; longer names of rows, and longer words, may be broken in a narrow terminal
DIGITS = "0123456789−–"  # a number begins with one of these


class BySeed(str):
    """The text of a cell. The page shows its numbers by seed, `by_seed`, under the pointer."""

    by_seed: str = ""

    @classmethod
    def of(cls, text: str, values: Mapping[int, float] | Sequence[float]) -> str:
        """Return a text with the numbers of each seed, or in the order of seeds; with one seed, the text alone."""
        if len(values) < 2:
            return text
        cell = cls(text)
        if isinstance(values, Mapping):
            cell.by_seed = ", ".join(f"seed {seed}: {number(value, 4)}" for seed, value in values.items())
        else:
            cell.by_seed = f"by seed: {', '.join(number(value, 4) for value in values)}"
        return cell


@dataclass(frozen=True)
class Table:
    """A table of texts. Rows begin with a name, such as that of an arm.

    `words` explains the columns. If `turns` is True, the terminal may show columns as rows.
    """

    title: str
    header: list[str]
    rows: list[list[str]]
    words: str = ""
    turns: bool = True

    @classmethod
    def from_columns(
        cls, title: str, columns: Mapping[str, Sequence[str]], words: str = "", turns: bool = True
    ) -> Self:
        """Return a table with these columns. Those without any value are left out.

        Args:
            title: Its title.
            columns: Heading → the texts of the column.
            words: A sentence below the table.
            turns: Whether the terminal shows a wide table turned, with arms as columns.
        """
        shown = {heading: texts for heading, texts in columns.items() if set(texts) - {MISSING, ""}}
        return cls(title, list(shown), [list(row) for row in zip(*shown.values(), strict=True)], words, turns)

    @property
    def text_columns(self) -> set[int]:
        """The indices of the columns after the first that contain texts, not numbers."""
        columns = list(zip(*self.rows, strict=True))
        return {i for i, texts in enumerate(columns) if i and not any(text[:1] in DIGITS for text in texts if text)}

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> Iterator["RichTable"]:
        """Print the table with one column per arm, as wide as the console allows.

        If there are more arms than measures, or several rows per arm, it has one row per arm.
        """
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as RichTable

        lines = [self.header, *self.rows]
        if self.turns and len({row[0] for row in self.rows}) == len(self.rows) < len(self.header):
            lines = [list(line) for line in zip(*lines, strict=True)]
        if lines[0][0] == "arm":
            lines[0] = ["", *lines[0][1:]]
        columns = list(zip(*lines, strict=True))
        table = RichTable(title=self.title, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
        around = 3 * len(columns) + 1  # spaces and edges
        for texts, width in zip(columns, _widths(columns, options.max_width - around), strict=True):
            table.add_column(texts[0], justify="right" if table.columns else "left", overflow="fold", width=width)
        for line in lines[1:]:
            table.add_row(*line)
        yield table


def _widths(columns: Sequence[Sequence[str]], available: int) -> list[int]:
    """Return widths of columns that fit. The widest ones are narrowed, and words are broken only if that is not enough.

    Rich narrows columns too, but cuts the table off at the right edge if they have minimum widths."""
    widths = [max(map(len, texts), default=0) or 1 for texts in columns]
    words = [max((len(word) for text in texts for word in text.split()), default=1) for texts in columns]
    least = [min(words[0], NAME), *(min(length, WORD) for length in words[1:])]
    while sum(widths) > available and max(widths) > 1:
        wide = [i for i, width in enumerate(widths) if width > least[i]] or range(len(widths))
        widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def number(value: Any, digits: int = 3) -> str:
    """Return a number as text with about `digits` digits and a true minus sign, or a dash if it was not measured."""
    if not isinstance(value, (int, float)) or not np.isfinite(value):
        return MISSING
    large = abs(value) >= 10 ** (digits - 1)
    text = f"{value:,.0f}" if large and abs(value) < 1e7 else f"{value:.{digits}g}"
    return text.replace("-", "−")


def estimate(mean: float, ends: tuple[float, float] | None) -> str:
    """Return a mean and its interval as text, `112 [85, 139]`, rounded to two digits of the interval's half width.

    Without an interval, return the mean.
    """
    if ends is None or not np.isfinite([mean, *ends]).all():
        return number(mean)
    low, high = ends
    half, largest = (high - low) / 2, max(abs(low), abs(high))
    if half == 0 or not 1e-3 <= largest < 1e7:
        return f"{number(mean)} [{number(low)}, {number(high)}]"
    digits = min(6, max(0, 1 - int(np.floor(np.log10(half)))))
    mean, low, high = (round(value, digits) + 0.0 for value in (mean, low, high))  # no −0
    text = f"{mean:,.{digits}f} [{low:,.{digits}f}, {high:,.{digits}f}]"
    return text.replace("-", "−")


def join_words(words: Sequence[str]) -> str:
    """Return words as text: `a`, `a and b`, or `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def variant_text(variant: Mapping[str, Any]) -> str:
    """Return a variant of the settings as text, such as `learning rate 1e-05, epochs 3`; "" if nothing varies."""
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in variant.items())


def over_seeds(seeds: int) -> str:
    """Return the sentence below a table about its means over this many seeds."""
    if seeds == 1:
        return "1 seed: no interval; differences may be due to chance."
    return "[ ]: 95 % Student-t interval of the mean over seeds."


@dataclass(frozen=True)
class Contract:
    """The reset contract of one arm's intervention for one learner, as recorded in events."""

    arm: str
    intervention: str
    learner: str
    terms: dict[str, str]


def contracts(data: ComparisonData) -> tuple[list[Contract], list[str]]:
    """Return all distinct contracts, and the arms without an intervention event.

    Continuous hooks, such as a penalty, log no events and therefore have no contract here. The page lists all hooks.
    """
    distinct: dict[tuple[str, str, str], Contract] = {}
    idle = []
    for label, runs in data.arms.items():
        events = [event for run in runs for event in run.of_kind("intervention")]
        for event in events:
            who = label, str(event.get("intervention", "?")), str(event.get("learner", "?"))
            terms = {str(name): str(text) for name, text in event.get("contract", {}).items()}
            distinct.setdefault(who, Contract(*who, terms))
        if not events:
            idle.append(label)
    return list(distinct.values()), idle


def event_rows(data: ComparisonData) -> list[list[str]]:
    """Return one row per intervention or explosion.

    The columns are arm, seed, step, event, learner, SFE, feature covariance distance, DfI and seconds.
    """
    rows: list[list[str]] = []
    for label, runs in data.arms.items():
        for run in runs:
            for event in run.events:
                if event.get("event") in ("intervention", "explosion"):
                    rows.append([label, run.whose_events, f"{event['step']:,}", *_event_cells(event)])
    return rows


def _event_cells(event: Row) -> list[str]:
    if event["event"] == "explosion":
        return ["physics exploded", str(event.get("env", "?")), *[MISSING] * 4]
    before, after, change = (event.get(key, {}) for key in ("before", "after", "change"))
    return [
        str(event.get("intervention", "?")),
        str(event.get("learner", "?")),
        number(change.get("sfe")),
        number(change.get("feature_covariance_distance")),
        f"{number(before.get('dfi_unscaled'))} → {number(after.get('dfi_unscaled'))}",
        number(event.get("seconds")),
    ]
