"""Tables of deep linear networks: what an arm learned, forgot and changed, at the end and task by task."""

from collections.abc import Sequence

import numpy as np

from supple.experiments.history.data import ComparisonData, RunData, Segment
from supple.reports.studies.evaluation_tables import (
    have_interventions,
    interventions_table,
    table_by_cell,
)
from supple.reports.studies.evaluations import Cell
from supple.reports.study_report import final_spreads, final_values
from supple.reports.tables.cells import Heading, Interval, Value
from supple.reports.tables.metrics import before_and_after
from supple.reports.tables.statistics import Spread
from supple.reports.tables.table import Columns, Table

EXCESS = "excess_loss"
KERNEL = {"kernel distance": "kernel_distance", "kernel distance, last task": "kernel_distance_task"}
ROUNDING = 1e-12  # below it a loss in float64 has no digits that mean anything


def linear_tables(study: ComparisonData, cells: Sequence[Cell]) -> list[Table]:
    """Return the tables of the final results, of each task, and of the interventions."""
    compared = {name: spreads for (name, _), spreads in compared_measures(cells).items()}
    columns: dict[Heading, list[Value]] = {}
    for heading in sorted(compared, key=lambda name: name != study.first.leads):
        columns[heading] = list(map(Interval.of, compared[heading]))
    for heading, name in KERNEL.items():
        columns[heading] = [Interval.of(_without_rounding(spread)) for spread in final_spreads(cells, name)]
    note = (
        "Final numbers are those after the last update. Excess loss: ½‖W₂W₁ − Σyx‖² on the last task, the part of the "
        "loss that training can remove; its mean is over all evaluations of the task, which is small if the task was "
        "learned fast. Forgetting: the mean increase of the losses on earlier tasks since their own "
        "training ended. Kernel distance: the distance, in [0, 1], of the tangent kernel from that at the start of the "
        "run, or of the last task."
    )
    tables = [table_by_cell(study, cells, "Summary", columns, note), _tasks_table(study, cells)]
    balance: Columns = {"λ": [before_and_after(cell.at_events, "lambda_balance") for cell in cells]}
    about = "λ: how balanced the layers are, W₂ᵀW₂ − W₁W₁ᵀ ≈ λI."
    return [*tables, *([interventions_table(study, cells, balance, about)] if have_interventions(cells) else [])]


def compared_measures(cells: Sequence[Cell]) -> dict[tuple[str, bool], list[Spread]]:
    """Return the numbers by which arms are compared, for each cell. Rounding errors count as 0."""
    compared = final_values(cells, (EXCESS, "forgetting"))
    compared["mean excess loss in the last task", False] = [_losses(cell, cell.runs[0].tasks[-1])[1] for cell in cells]
    return {name: list(map(_without_rounding, spreads)) for name, spreads in compared.items()}


def _tasks_table(study: ComparisonData, cells: Sequence[Cell]) -> Table:
    """Return the table of excess losses in each task: at its start, on average, and at its end.

    There is one row for each task of a cell. If runs are shown side by side, their tasks may differ."""
    rows: list[tuple[int, list[Value]]] = []
    for cell in cells:
        for task in cell.runs[0].tasks:
            losses = _losses(cell, task)
            intervals = [Interval.of(_without_rounding(spread)) for spread in losses]
            if losses[-1].known.size:
                rows.append((task.index, [f"{task.index} {task.name}", cell.label, *intervals]))
    rows.sort(key=lambda row: row[0])
    note = (
        "Excess loss in each task: before its first update (after interventions at the task switch), the mean of all "
        "evaluations, which is small if the task was learned fast, and after its last update."
    )
    return Table("Tasks", ["task", "arm", "first", "mean", "last"], [row for _, row in rows], note)


def _losses(cell: Cell, task: Segment) -> list[Spread]:
    """Return the first, mean and last excess loss in a task."""
    losses = np.array([_losses_in(run, task) for run in cell.runs])
    return [Spread(column, cell.seeds) for column in losses.T]


def _losses_in(run: RunData, task: Segment) -> tuple[float, float, float]:
    """Return (first, mean, last), which are NaN if the run has not finished the task."""
    steps, values = run.series(EXCESS, task.index)
    if not steps.size or steps[-1] < task.end:
        return np.nan, np.nan, np.nan
    return float(values[0]), float(values.mean()), float(values[-1])


def _without_rounding(spread: Spread) -> Spread:
    """Return numbers without those of the size of rounding errors, which become 0."""
    return Spread(np.where(np.abs(spread.values) <= ROUNDING, 0.0, spread.values), spread.seeds)
