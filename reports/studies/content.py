"""The interface between reports and kinds of runs: the contents of a report, and how to read a kind's logs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from supple.engine.kinds import Kind

if TYPE_CHECKING:
    from supple.engine.loop import Warn
    from supple.experiments.history.data import RunData
    from supple.reports.figures.style import Plot
    from supple.reports.tables.cells import Interval
    from supple.reports.tables.differences import Measure
    from supple.reports.tables.table import Table


@dataclass(frozen=True)
class Content:
    """The contents of a report. Figures and page take longer, and are made when they are needed.

    Attributes:
        tables: Tables for the page and the terminal.
        scores: The contents of scores.json.
        plots: Returns the figures.
        page: Returns the page for these figures and the folder that contains the report.
        lines: Sentences that the terminal shows below the tables.
        measures: The numbers by which arms are compared, the most important one first.
        shares: Shares of a fresh agent: (variant, arm) → share.
        runs: All runs, one per seed. Seeds that were trained as a stack have the same path.
        more: Tables that are only on the page.
        with_videos: Returns these contents with videos of the trained agents on the page. None for other kinds of runs.
    """

    tables: "list[Table]"
    scores: dict[str, Any]
    plots: "Callable[[], list[Plot]]"
    page: "Callable[[list[Plot], Path], str]"
    lines: list[str] = field(default_factory=list)
    measures: "Sequence[Measure]" = ()
    shares: "Mapping[tuple[str, str], Interval]" = field(default_factory=dict)
    runs: "Sequence[RunData]" = ()
    more: "Sequence[Table]" = ()
    with_videos: "Callable[[Warn], Content] | None" = None


@dataclass(frozen=True)
class SideBySide:
    """The labels of runs of a kind that are shown side by side.

    `named` is a setting that is part of the name of an arm, together with its hooks; "" for none. `benchmark` returns
    the column of a run, if not all runs of the kind share one.
    """

    named: str = ""
    benchmark: "Callable[[RunData], str]" = lambda run: run.spec.kind


@dataclass(frozen=True)
class Report:
    """The functions that make the report of one kind of run.

    `compose` returns the contents of the report of some directories. `side_by_side` is None if runs cannot be shown so.
    """

    compose: Callable[[Sequence[Path]], Content]
    side_by_side: SideBySide | None = None


def report_of(kind: Kind) -> Report:
    """Return the report of a kind of run."""
    report: Report = resolve_name(kind.report)
    return report
