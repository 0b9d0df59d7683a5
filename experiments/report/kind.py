"""What a kind of runs brings to its reports: what the page says, and the little by which its logs read differently."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .collect import RunData
    from .differences import Measure
    from .style import Plot
    from .tables import Table


@dataclass(frozen=True)
class Content:
    """Hold what a report says; figures and page, which take longer, are made when asked for.

    scores: for scores.json. lines: what the terminal has below the tables. measures: the numbers in which arms are
    compared, the one that matters most first. shares: of a fresh agent, one for each variant. runs: every run, one a
    seed; those that were trained as one have one path. more: tables that only the page has."""

    tables: "list[Table]"
    scores: dict[str, Any]
    plots: "Callable[[], list[Plot]]"
    page: "Callable[[list[Plot]], str]"
    lines: list[str] = field(default_factory=list)
    measures: "Sequence[Measure]" = ()
    shares: "Sequence[Measure]" = ()
    runs: "Sequence[RunData]" = ()
    more: "Sequence[Table]" = ()


@dataclass(frozen=True)
class Beside:
    """Say how runs of a kind are named where several stand side by side.

    named: the setting that an arm is called by besides its hooks; "" for none. benchmark: run → the column that it
    goes to, where not all runs of the kind share one."""

    named: str = ""
    benchmark: "Callable[[RunData], str]" = lambda run: run.kind


@dataclass(frozen=True)
class Report:
    """Say how one kind of runs is reported.

    compose: directories → what the report says. split: a run as read from its directory → one
    history a seed, where it trains several at once. beside: None where runs do not go side by side."""

    compose: Callable[[Sequence[Path]], Content]
    split: "Callable[[RunData], list[RunData]]" = lambda run: [run]
    beside: Beside | None = None
