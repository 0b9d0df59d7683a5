"""Scores of sequences of tasks, per method: retention and transfer."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from supple.experiments.history.data import ComparisonData, RunData
from supple.metrics import (
    Array,
    domain_average,
    domain_last,
    domain_transfer,
    forgetting,
    order_disparity,
    overall_performance,
)
from supple.reports.studies.evaluation_tables import table_by_cell
from supple.reports.studies.evaluations import Cell
from supple.reports.tables.cells import PERCENT, Number, percent
from supple.reports.tables.differences import Measure, measures_of
from supple.reports.tables.statistics import NAN, Spread, mean, spread_json
from supple.reports.tables.table import Columns, Table, TableRows

BY_TASK: dict[str, Callable[[Array], Array]] = {
    "transfer": domain_transfer,
    "average": domain_average,
    "last": domain_last,
}
HEADINGS = {
    "before": "before",
    "op": "OP",
    "bwt": "BWT, eq. 10",
    "transfer": "Transfer",
    "average": "Average",
    "last": "Last",
}


@dataclass(frozen=True, eq=False)
class Learned:
    """The scores of every task in the runs of one cell.

    tasks: their names in the order of learning. scores: (seeds, tasks, tasks), A[i, j] of task j after task i. before:
    (seeds, tasks), before any task. NaN stands for missing scores.
    """

    cell: Cell
    tasks: tuple[str, ...]
    scores: Array
    before: Array

    def measures(self) -> dict[str, Spread]:
        """Return OP and BWT, and the means over tasks of Transfer, Average and Last, of each seed.

        OP and BWT are equations 9 and 10 of MoRAM (positive: forgotten), the others its A.2. They are NaN for runs that
        have not learned all tasks."""
        values = {"before": self.before.mean(axis=1)}
        values |= {"op": np.array([*map(overall_performance, self._complete)])}
        values |= {"bwt": np.array([*map(forgetting, self._complete)])}
        values |= {name: mean(of_tasks, axis=1) for name, of_tasks in self.by_task().items()}
        return {name: Spread(of_seeds, self.cell.seeds) for name, of_seeds in values.items()}

    def by_task(self) -> dict[str, Array]:
        """Return Transfer, Average and Last of each task, (seeds, tasks). NaN as in `measures`.

        Transfer of the first task is NaN too.
        """
        return {name: np.stack([*map(of_tasks, self._complete)]) for name, of_tasks in BY_TASK.items()}

    @property
    def _complete(self) -> Array:
        """The scores of the runs that have learned all tasks, with NaN for the others."""
        return np.where(np.isfinite(self.scores).all(axis=(1, 2), keepdims=True), self.scores, NAN)


def collect_scores(cells: Sequence[Cell]) -> list[Learned]:
    """Return the scores of every cell."""
    learned = []
    for cell in cells:
        before, scores = map(np.stack, zip(*map(_read_scores, cell.runs), strict=True))
        learned.append(Learned(cell, tuple(task.name for task in cell.runs[0].as_logged.tasks), scores, before))
    return learned


def to_json(learned: Learned) -> dict[str, Any]:
    """Return the further entries of a cell's arm in scores.json."""
    return {
        "tasks": learned.tasks,
        "scores": learned.scores,
        "scores_before": learned.before,
        **{name: spread_json(spread) for name, spread in learned.measures().items() if name != "before"},
        "by_task": {name: mean(values, axis=0) for name, values in learned.by_task().items()},
    }


def compared_measures(data: ComparisonData, learned: Sequence[Learned]) -> list[Measure]:
    """Return the measures by which methods are compared. Last is OP."""
    measures = []
    for name in ("op", "bwt", "transfer", "average"):
        measures += measures_of(data, HEADINGS[name], dict(zip(data.arms, _measured(learned, name), strict=True)), True)
    return measures


def _measured(learned: Sequence[Learned], name: str) -> list[Spread]:
    return [scores.measures()[name] for scores in learned]


def summary_table(study: ComparisonData, learned: Sequence[Learned]) -> Table:
    """Return a table with one row per method."""
    columns: Columns = {}
    for name in sorted(HEADINGS, key=lambda name: HEADINGS[name] != study.first.leads):
        heading = HEADINGS[name]
        columns[percent(heading)] = [Number.of(spread, PERCENT) for spread in _measured(learned, name)]
    note = (
        "Before: mean score of the model as it was. OP: mean score of all tasks in the end, as is Last. BWT is eq. 10 "
        "of the MoRAM paper: positive means forgotten (the field’s BWT has the other sign). Transfer: mean score of "
        "tasks before they are learned, without the first; Average: over all times."
    )
    return table_by_cell(study, [scores.cell for scores in learned], "Continual learning", columns, note)


def tasks_table(learned: Sequence[Learned]) -> Table:
    """Return a table of Transfer, Average and Last of every task (MoRAM, Table 1)."""
    tasks = list(dict.fromkeys(task for scores in learned for task in scores.tasks))
    rows: TableRows = []
    for scores in learned:
        label = scores.cell.label
        for name, values in scores.by_task().items():
            spreads = [Spread(of_task, scores.cell.seeds) for of_task in values.T]
            cells = {task: Number.of(spread, PERCENT) for task, spread in zip(scores.tasks, spreads, strict=True)}
            if np.isfinite(values).any():
                rows.append([label, name.capitalize(), *map(cells.get, tasks)])
    return Table("By task (%)", ["method", "measure", *tasks], rows, "Means over seeds; tasks as first learned.")


def order_line(learned: Sequence[Learned]) -> str:
    """Return one line on how much the final performance differs between orders of the tasks.

    It is "" if there is only one order."""
    by_order: dict[str, list[float]] = defaultdict(list)
    for scores in learned:
        rest = [f"{name} {value}" for name, value in scores.cell.point.variant.items() if name != "order"]
        by_order[", ".join([*rest, scores.cell.point.arm])].append(scores.measures()["op"].mean)
    by_label = {label: values for label, values in by_order.items() if len(values) > 1 and np.isfinite(values).all()}
    if not any("order" in scores.cell.point.variant for scores in learned) or not by_label:
        return ""
    parts = [f"{100 * order_disparity(values):.2f} ({label})" for label, values in by_label.items()]
    return f"Order disparity (standard deviation of OP over orders, %): {'; '.join(parts)}."


def _read_scores(run: RunData) -> tuple[Array, Array]:
    """Return the scores of one run: before any task, and A[i, j]."""
    count = len(run.as_logged.tasks)
    before, A = np.full(count, NAN), np.full((count, count), NAN)
    for row in run.outcomes:
        A[row["task"]] = np.array(row["scores"], dtype=np.float64)  # None becomes NaN
        if row.get("before"):
            before[:] = np.array(row["before"], dtype=np.float64)
    return before, A
