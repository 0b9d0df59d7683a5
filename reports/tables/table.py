"""Tables of reports, reset contracts, and the list of events."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import filterfalse
from typing import TYPE_CHECKING, Any, Self

from supple.experiments.history.data import ComparisonData, Row, RunData

from .cells import BySeed, Heading, Label, Pair, Value, is_missing, show

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table as RichTable

Columns = Mapping[Heading, Sequence[Value]]  # heading → cells
NAME = 32  # characters; a longer word may be broken in a narrow terminal


@dataclass(frozen=True)
class Table:
    """A table. Rows begin with a name, such as that of an arm.

    `words` explains the columns. If `turns` is True, the terminal may show columns as rows.
    """

    title: str
    header: Sequence[Heading]
    rows: Sequence[Sequence[Value]]
    words: str = ""
    turns: bool = True

    @classmethod
    def from_columns(
        cls, title: str, columns: Mapping[Any, Sequence[Value]], words: str = "", turns: bool = True
    ) -> Self:
        """Return a table with these columns. Those without any value are left out.

        Args:
            title: Its title.
            columns: Heading → the cells of the column.
            words: A sentence below the table.
            turns: Whether the terminal shows a wide table turned, with arms as columns.
        """
        shown = {heading: cells for heading, cells in columns.items() if not all(map(is_missing, cells))}
        return cls(title, list(shown), list(map(list, zip(*shown.values(), strict=True))), words, turns)

    @property
    def texts(self) -> list[list[str]]:
        """The header and the rows as they are shown."""
        return [list(map(show, row)) for row in (self.header, *self.rows)]

    @property
    def text_columns(self) -> set[int]:
        """The indices of the columns after the first that contain texts, not numbers."""
        columns = enumerate(zip(*self.rows, strict=True))
        return {i for i, cells in columns if i and not any(map(_is_number, cells))}

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> Iterator["RichTable"]:
        """Print the table with one column per arm, as wide as the console allows.

        If there are more arms than measures, or several rows per arm, it has one row per arm. Numbers by seed are left
        out if words would have to be broken.
        """
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as RichTable

        columns = self._columns_in_terminal()
        if sum(_least_widths(columns)) + 3 * len(columns) + 1 > options.max_width:
            columns = self._without_seeds()._columns_in_terminal()
        lines = list(zip(*columns, strict=True))
        table = RichTable(title=self.title, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
        around = 3 * len(columns) + 1  # spaces and edges
        for texts, width in zip(columns, _widths(columns, options.max_width - around), strict=True):
            table.add_column(texts[0], justify="right" if table.columns else "left", overflow="fold", width=width)
        for line in lines[1:]:
            table.add_row(*line)
        yield table

    def _columns_in_terminal(self) -> list[tuple[str, ...]]:
        """Return the columns that the terminal shows, with their headings."""
        lines = self.texts
        turned = self.turns and len({line[0] for line in lines[1:]}) == len(self.rows) < len(self.header)
        columns = list(map(tuple, lines if turned else zip(*lines, strict=True)))
        return [("", *columns[0][1:]), *columns[1:]] if lines[0][0] == "arm" else columns

    def _without_seeds(self) -> Self:
        """Return the table without its columns of numbers by seed."""
        kept = filterfalse(_has_seeds, zip(self.header, *self.rows, strict=True))
        header, *rows = zip(*kept, strict=True)
        return replace(self, header=header, rows=rows)


def _has_seeds(cells: Iterable[Value]) -> bool:
    return any(isinstance(cell, BySeed) for cell in cells)


def _is_number(cell: Value) -> bool:
    return not isinstance(cell, (str, Label)) and not is_missing(cell)


def _widths(columns: Sequence[Sequence[str]], available: int) -> list[int]:
    """Return widths of columns that fit. The widest ones are narrowed, and words are broken only if that is not enough.

    Rich narrows columns too, but cuts the table off at the right edge if they have minimum widths."""
    widths = [max(map(len, texts), default=0) or 1 for texts in columns]
    least = _least_widths(columns)
    while sum(widths) > available and max(widths) > 1:
        wide = [i for i, width in enumerate(widths) if width > least[i]] or range(len(widths))
        widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def _least_widths(columns: Sequence[Sequence[str]]) -> list[int]:
    """Return the widths below which words are broken that should not be."""
    return [min(max(map(len, " ".join(texts).split()), default=1), NAME) for texts in columns]


def join_words(words: Sequence[str]) -> str:
    """Return words as text: `a`, `a and b`, or `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def range_text(numbers: Collection[int]) -> str:
    """Return a range as text: `1,000`, or `1,000 to 2,000` if the numbers differ."""
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def over_seeds(seeds: int) -> str:
    """Return the sentence below a table about its means over this many seeds."""
    if seeds == 1:
        return "1 seed: no interval; differences may be due to chance."
    return "[ ]: 95 % Student-t interval of the mean over seeds."


Contracts = dict[tuple[str, str, str], dict[str, str]]  # arm, intervention and learner → what it resets


def contracts(arms: Mapping[str, Sequence[RunData]]) -> tuple[Contracts, list[str]]:
    """Return all distinct reset contracts as recorded in events, and the arms without an intervention event.

    Continuous hooks, such as a penalty, log no events and therefore have no contract here. The page lists all hooks.
    """
    distinct: Contracts = {}
    idle = []
    for arm, runs in arms.items():
        events = [event for run in runs for event in run.of_kind("intervention")]
        for event in events:
            who = arm, str(event.get("intervention", "?")), str(event.get("learner", "?"))
            distinct.setdefault(who, event.get("contract", {}))
        if not events:
            idle.append(arm)
    return distinct, idle


def event_rows(datas: Iterable[ComparisonData]) -> list[list[Value]]:
    """Return one row per intervention or explosion.

    The columns are arm, seed, step, event, learner, SFE, feature covariance distance, DfI and seconds.
    """
    return [
        [label, str(run.seed), event["step"], *_event_cells(event)]
        for data in datas
        for label, runs in data.arms.items()
        for run in runs
        for event in run.as_logged.events
        if event.get("event") in ("intervention", "explosion")
    ]


def _event_cells(event: Row) -> list[Value]:
    if event["event"] == "explosion":
        return ["physics exploded", str(event.get("env", "?")), None, None, None, None]
    before, after, change = (event.get(key, {}) for key in ("before", "after", "change"))
    return [
        str(event.get("intervention", "?")),
        str(event.get("learner", "?")),
        change.get("sfe"),
        change.get("feature_covariance_distance"),
        Pair(before.get("dfi_unscaled"), after.get("dfi_unscaled")),
        event.get("seconds"),
    ]
