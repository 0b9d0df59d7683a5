"""The reports of language models and linear networks, which compare evaluated numbers in variants of the settings."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from supple.experiments.history.data import ComparisonData

from .studies.content import Description, Report
from .studies.evaluation_tables import is_share
from .studies.evaluations import Cell, compared_names, read_cells, to_json
from .tables.differences import lead, measures_of, missing_lead
from .tables.old_tasks import OldTasks
from .tables.statistics import NAN, Spread
from .tables.table import Table

if TYPE_CHECKING:
    from .figures.style import Plot

FEW = 4  # task names that fit into a title
Compared = Mapping[tuple[str, bool], Sequence[Spread]]


@dataclass(frozen=True)
class StudyParts:
    """What a kind adds to the report of its evaluations.

    Attributes:
        tables: Tables.
        lines: Sentences that summarise the tables.
        plots: Returns the kind's own figures.
        more: Further keys of each cell in scores.json.
        compared: The numbers by which arms are compared: name, and whether they are shares → one spread per cell. None
            for the final values of all evaluated numbers.
        old_tasks: What became of old tasks.
    """

    tables: list[Table]
    lines: list[str] = field(default_factory=list)
    plots: "Callable[[], Iterable[Plot | None]]" = tuple
    more: Sequence[dict[str, Any]] = ()
    compared: Compared | None = None
    old_tasks: Sequence[OldTasks] = ()


def make_report(
    title: str,
    describe: Callable[[ComparisonData, Sequence[Cell]], StudyParts],
    named: str = "",
    apart: bool = False,
) -> Report:
    """Return the report of a kind.

    Args:
        title: What its runs are called.
        describe: Returns what the kind adds.
        named: A setting that is part of the name of an arm, where runs are side by side.
        apart: Whether each variant has its own figures.
    """

    def of(data: ComparisonData) -> Description:
        cells = read_cells(data)
        parts = describe(data, cells)
        compared = final_values(cells, compared_names(cells)) if parts.compared is None else parts.compared
        measures = []
        for (name, share), spreads in compared.items():
            measures += measures_of(data, name, dict(zip(data.arms, spreads, strict=True)), share)
        names = [
            re.sub(r"\S*/", "", task.name) for task in data.first.as_logged.tasks
        ]  # file names without their folders
        notes = [*data.notes, *missing_lead(measures, leads := data.first.leads)]
        for label, runs in data.arms.items():
            notes += [
                f"{label}, seed {run.seed}: {run.unfinished}, its logs end at update {run.last_step:,} of "
                f"{run.total_steps:,}; it is not included in final numbers"
                for run in runs
                if run.last_step < run.total_steps
            ]
        return Description(
            data,
            " → ".join(names) if len(names) <= FEW else f"{len(names)} tasks",
            to_json(data, cells, parts.more),
            parts.tables,
            lead(measures, leads),
            lambda: _plots(data, parts, apart),
            list(filter(None, parts.lines)),
            notes,
            parts.old_tasks,
        )

    return Report(title, of, named, since_fork=True)


def final_values(cells: Sequence[Cell], names: Sequence[str]) -> dict[tuple[str, bool], list[Spread]]:
    """Return the final values of these numbers, with one spread per cell, as in `StudyParts.compared`."""
    return {(f"final {name.replace('_', ' ')}", is_share(name)): final_spreads(cells, name) for name in names}


def final_spreads(cells: Sequence[Cell], name: str) -> list[Spread]:
    """Return the final values of a number, by seed, for each cell. NaN where it was not evaluated."""
    return [
        cell.numbers[name]["final"] if name in cell.numbers else Spread(np.full(len(cell.runs), NAN), cell.seeds)
        for cell in cells
    ]


def _plots(data: ComparisonData, parts: StudyParts, apart: bool) -> "list[Plot | None]":
    """Return the figures of the kind, of the first phase, then those of all runs."""
    from .studies.evaluation_figures import plot_first_phase, plot_views

    return [*parts.plots(), plot_first_phase(data), *plot_views(data, apart)]
