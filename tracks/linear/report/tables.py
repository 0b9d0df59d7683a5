"""Tables of deep linear networks: what an arm learned, forgot and changed, at the end and task by task."""

from collections.abc import Sequence

import numpy as np

from supple.experiments.history.data import ComparisonData, RunData, Segment
from supple.reports.studies.evaluation_tables import (
    interventions_table,
    table_by_cell,
)
from supple.reports.studies.evaluations import Cell
from supple.reports.study_report import final_spreads
from supple.reports.tables.cells import Number, Value
from supple.reports.tables.differences import Measure, measures_of
from supple.reports.tables.metrics import before_and_after
from supple.reports.tables.statistics import Spread
from supple.reports.tables.table import Columns, Table

EXCESS = "excess_loss"
KERNEL = {"kernel distance": "kernel_distance", "kernel distance, last task": "kernel_distance_task"}
ROUNDING = 1e-12  # below it a loss in float64 has no digits that mean anything


def linear_tables(study: ComparisonData, cells: Sequence[Cell]) -> list[Table]:
    """Return the tables of the final results, of each task, and of the interventions."""
    results = _results(cells)
    columns: Columns = {}
    for heading in sorted(results, key=lambda name: name != study.first.leads):
        columns[heading] = list(map(Number.of, results[heading]))
    for heading, name in KERNEL.items():
        columns[heading] = [Number.of(_without_rounding(spread)) for spread in final_spreads(cells, name)]
    note = (
        "Final numbers are those after the last update. Excess loss: ½‖W₂W₁ − Σyx‖² on the last task, the part of the "
        "loss that training can remove; its mean is over all evaluations of the task, which is small if the task was "
        "learned fast. Forgetting: the mean increase of the losses on earlier tasks since their own "
        "training ended. Kernel distance: the distance, in [0, 1], of the tangent kernel from that at the start of the "
        "run, or of the last task."
    )
    tables = [table_by_cell(study, cells, "Summary", columns, note), _tasks_table(cells)]
    balance: Columns = {"λ": [before_and_after(cell.at_events, "lambda_balance") for cell in cells]}
    about = "λ: how balanced the layers are, W₂ᵀW₂ − W₁W₁ᵀ ≈ λI."
    return [*tables, interventions_table(study, cells, balance, about)]


def compared_measures(data: ComparisonData, cells: Sequence[Cell]) -> list[Measure]:
    """Return the numbers by which arms are compared."""
    results = _results(cells).items()
    return [each for name, of in results for each in measures_of(data, name, dict(zip(data.arms, of, strict=True)))]


def _results(cells: Sequence[Cell]) -> dict[str, list[Spread]]:
    """Return the final results: name → numbers of each cell. Rounding errors count as 0."""
    results = {f"final {name.replace('_', ' ')}": final_spreads(cells, name) for name in (EXCESS, "forgetting")}
    results["mean excess loss in the last task"] = [_losses(cell, cell.runs[0].tasks[-1])[1] for cell in cells]
    return {name: list(map(_without_rounding, spreads)) for name, spreads in results.items()}


def _tasks_table(cells: Sequence[Cell]) -> Table:
    """Return the table of excess losses in each task: at its start, on average, and at its end.

    There is one row for each task of a cell. If runs are shown side by side, their tasks may differ."""
    rows: list[tuple[int, list[Value]]] = []
    for cell in cells:
        for task in cell.runs[0].tasks:
            losses = _losses(cell, task)
            intervals = [Number.of(_without_rounding(spread)) for spread in losses]
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
