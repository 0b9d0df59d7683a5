"""Tables of reports, reset contracts, and the list of events."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from supple.experiments.history.data import ComparisonData, Row, RunData, interventions_in

from .cells import BySeed, Heading, Label, Pair, Value, is_missing, show

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table as RichTable

Columns = dict[Heading, list[Value]]  # heading → cells
TableRows = list[list[Value]]


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
        cls,
        title: str,
        columns: Mapping[Any, Sequence[Value]],
        words: str = "",
        turns: bool = True,
        about: Mapping[Any, str] | None = None,
    ) -> Self:
        """Return a table with these columns: heading → cells. Those without any value are left out.

        `about` has explanations of columns, which precede `words` if the table has them.
        """
        shown = {heading: cells for heading, cells in columns.items() if not all(map(is_missing, cells))}
        words = " ".join(filter(None, [*((about or {}).get(heading) for heading in shown), words]))
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
        """Print the table without numbers by seed, with one column per arm if it has fewer arms than columns."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as RichTable

        columns = zip(self.header, *self.rows, strict=True)
        shown = [list(map(show, cells)) for cells in columns if BySeed not in map(type, cells)]
        turned = self.turns and len(set(shown[0][1:])) == len(self.rows) < len(self.header)
        header, *rows = shown if turned else zip(*shown, strict=True)
        table = RichTable(title=self.title, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
        for heading in ("" if header[0] == "arm" else header[0], *header[1:]):
            table.add_column(heading, justify="right" if table.columns else "left", overflow="fold")
        for row in rows:
            table.add_row(*row)
        yield table


def _is_number(cell: Value) -> bool:
    return not isinstance(cell, (str, Label)) and not is_missing(cell)


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
        events = interventions_in(runs)
        for event in events:
            who = arm, str(event.get("intervention", "?")), str(event.get("learner", "?"))
            distinct.setdefault(who, event.get("contract", {}))
        if not events:
            idle.append(arm)
    return distinct, idle


def event_rows(datas: Iterable[ComparisonData]) -> TableRows:
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
