"""Tables of a study's numbers, with one row per arm and variant."""

from collections.abc import Sequence
from itertools import chain

from supple.experiments.history.data import ComparisonData
from supple.reports.tables.arms import setting_cells
from supple.reports.tables.cells import PERCENT, Form, Label, Number, Value, is_missing, percent
from supple.reports.tables.metrics import intervention_columns, intervention_words
from supple.reports.tables.table import Columns, Table, over_seeds

from .evaluations import Cell

SHARES = ("accuracy", "score", "rouge_l", "sari", "similarity")  # names that end so are shares, shown in %
LOSS = Form(decimals=3)


def summary_tables(study: ComparisonData, cells: Sequence[Cell]) -> list[Table]:
    """Return a table of all evaluated numbers at the start and at the end, and one of the interventions if any."""
    columns: Columns = {}
    for name in dict.fromkeys(name for cell in cells for name in cell.numbers):
        columns[heading(name, ", at the start")] = number_cells(cells, name, "first")
        columns[heading(name, ", final")] = number_cells(cells, name, "final")
    table = table_by_cell(study, cells, "Summary", columns, "Before the first update and after the last.")
    return [table, interventions_table(study, cells)]


def table_by_cell(study: ComparisonData, cells: Sequence[Cell], title: str, columns: Columns, words: str) -> Table:
    """Return a table with one row per cell: varied settings, arm, number of seeds, and all columns with a value.

    Args:
        study: The study.
        cells: Its cells.
        title: The title of the table.
        columns: Heading → the values, one for each cell.
        words: An explanation of the columns.
    """
    points = [cell.point for cell in cells]
    varied = dict.fromkeys(chain.from_iterable(point.variant for point in points))
    names: Columns = {name.replace("_", " "): setting_cells(points, name) for name in varied}
    if len({point.arm for point in points}) > 1 or not names:
        names["arm"] = [point.arm for point in points]
    columns = {**names, "seeds": [len(cell.runs) for cell in cells], **columns}
    return Table.from_columns(title, columns, f"{words} {over_seeds(study.seeds)}".strip())


def interventions_table(
    study: ComparisonData, cells: Sequence[Cell], more: Columns | None = None, about: str = ""
) -> Table:
    """Return a table of the effects of interventions on the weights, without rows if nothing was measured.

    Args:
        study: The study.
        cells: Its cells.
        more: Columns before these: heading → the values, one for each cell.
        about: An explanation of `more`.
    """
    columns: Columns = {**(more or {}), **intervention_columns([cell.at_events for cell in cells])}
    if all(map(is_missing, chain.from_iterable(columns.values()))):
        return Table("Interventions", [], [])
    words = f"{intervention_words('squared change of the weights')}: means over the interventions listed below."
    return table_by_cell(study, cells, "Interventions", columns, f"{about} {words}".strip())


def number_cells(cells: Sequence[Cell], name: str, which: str) -> list[Value]:
    """Return one of the values of a number, such as its `final` one, for each cell."""
    form = PERCENT if is_share(name) else LOSS
    return [Number.of(cell.numbers[name][which], form) if name in cell.numbers else None for cell in cells]


def is_share(name: str) -> bool:
    return name.split("/")[0].endswith(SHARES)


def heading(name: str, ending: str = "") -> Label | str:
    """Return the heading of a number, such as `val loss, final`, or `accuracy (%), final` if it is a share."""
    words = name.replace("_", " ")
    return Label(words + ending, f"{percent(words)}{ending}") if is_share(name) else words + ending
