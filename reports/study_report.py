"""The reports of language models and linear networks, which compare evaluated numbers in variants of the settings."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from supple.experiments.history.collect import notes_of_unfinished
from supple.experiments.history.data import ComparisonData

from .studies.content import Description
from .studies.evaluation_tables import is_share, summary_tables
from .studies.evaluations import Cell, compared_names, read_cells, to_json
from .tables.differences import Measure, lead, measures_of, missing_lead
from .tables.old_tasks import OldTasks
from .tables.statistics import NAN, Spread
from .tables.table import Table

if TYPE_CHECKING:
    from .figures.style import Plot

FEW = 4  # task names that fit into a title


def summarize(data: ComparisonData) -> Description:
    """Return what there is to say of all evaluated numbers: at the start and at the end."""
    cells = read_cells(data)
    return describe_evaluations(data, cells, summary_tables(data, cells))


def describe_evaluations(
    data: ComparisonData,
    cells: Sequence[Cell],
    tables: Sequence[Table],
    measures: Sequence[Measure] | None = None,
    plots: "Callable[[], Iterable[Plot | None]]" = tuple,
    lines: Sequence[str] = (),
    more: Sequence[dict[str, Any]] = (),
    old_tasks: Sequence[OldTasks] = (),
    apart: bool = False,
) -> Description:
    """Return what there is to say of evaluated numbers.

    Args:
        data, cells: The runs, and their numbers by arm.
        tables, plots, lines, old_tasks: As in `Description`, without the figures of all evaluations.
        measures: The numbers by which arms are compared; None for the final values of all evaluated numbers.
        more: Further keys of each cell in scores.json.
        apart: Whether each variant has its own figures.
    """
    leads = data.first.leads
    if measures is None:
        measures = final_measures(data, cells, compared_names(cells))
    names = [re.sub(r"\S*/", "", task.name) for task in data.first.as_logged.tasks]  # files without their folders
    unfinished = notes_of_unfinished(data, "it is not included in final numbers")

    def all_plots() -> "list[Plot | None]":
        from .studies.evaluation_figures import plot_first_phase, plot_views

        return [*plots(), plot_first_phase(data), *plot_views(data, apart)]

    return Description(
        data,
        " → ".join(names) if len(names) <= FEW else f"{len(names)} tasks",
        to_json(data, cells, more),
        tables,
        lead(measures, leads),
        all_plots,
        list(filter(None, lines)),
        [*data.notes, *missing_lead(measures, leads), *unfinished],
        old_tasks,
    )


def final_measures(data: ComparisonData, cells: Sequence[Cell], names: Sequence[str]) -> list[Measure]:
    """Return the final values of these numbers as measures."""
    measures = []
    for name in names:
        spreads = dict(zip(data.arms, final_spreads(cells, name), strict=True))
        measures += measures_of(data, f"final {name.replace('_', ' ')}", spreads, is_share(name))
    return measures


def final_spreads(cells: Sequence[Cell], name: str) -> list[Spread]:
    """Return the final values of a number, by seed, for each cell. NaN where it was not evaluated."""
    return [
        cell.numbers[name]["final"] if name in cell.numbers else Spread(np.full(len(cell.runs), NAN), cell.seeds)
        for cell in cells
    ]
