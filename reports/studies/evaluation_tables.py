"""Tables of a study's numbers, with one row per arm and variant."""

from collections.abc import Sequence

import numpy as np

from ..tables.metrics import intervention_columns, intervention_words
from ..tables.statistics import Spread
from ..tables.table import MISSING, BySeed, Table, number, over_seeds
from .evaluations import Cell
from .study import ReportedStudy

SHARES = ("accuracy", "score", "rouge_l", "sari", "similarity")  # names that end so are shares, shown in %
PERCENT = " (%)"  # the end of their headings


def summary_tables(study: ReportedStudy, cells: Sequence[Cell]) -> list[Table]:
    """Return a table of all evaluated numbers at the start and at the end, and one of the interventions if any."""
    columns: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for cell in cells for name in cell.numbers):
        columns[f"{heading(name)}, at the start"] = [number_text(cell, name, "first") for cell in cells]
        columns[f"{heading(name)}, final"] = [number_text(cell, name, "final") for cell in cells]
    table = table_by_cell(study, cells, "Summary", columns, "Before the first update and after the last.")
    return [table, *([interventions_table(study, cells)] if have_interventions(cells) else [])]


def spread_text(spread: Spread, percent: bool = False, digits: int = 3) -> str:
    """Return the mean over seeds and its 95 % Student-t interval as text, `3.123 [3.101, 3.145]`. Shares are in %."""
    if not np.isfinite(spread.mean):
        return MISSING
    scale, digits = (100.0, 2) if percent else (1.0, digits)
    mean, *ends = (f"{round(scale * x, digits) + 0.0:.{digits}f}" for x in (spread.mean, *(spread.interval or ())))
    text = (f"{mean} [{', '.join(ends)}]" if ends else mean).replace("-", "−")
    return BySeed.of(text, (scale * spread.values).tolist())


def table_by_cell(
    study: ReportedStudy, cells: Sequence[Cell], title: str, columns: dict[str, list[str]], words: str
) -> Table:
    """Return a table with one row per cell: varied settings, arm, number of seeds, and all columns with a value.

    Args:
        study: The study.
        cells: Its cells.
        title: The title of the table.
        columns: Heading → the texts of the cells.
        words: An explanation of the columns.
    """
    settings = {
        name.replace("_", " "): [_setting_text(cell.group.variant.get(name)) for cell in cells] for name in study.varied
    }
    arms = {"arm": [cell.arm for cell in cells]}
    names = settings | arms if len(study.arms) > 1 or not settings else settings
    columns = {**names, "seeds": [str(len(cell.runs)) for cell in cells], **columns}
    return Table.from_columns(title, columns, f"{words} {over_seeds(study.seeds)}".strip())


def interventions_table(
    study: ReportedStudy, cells: Sequence[Cell], more: dict[str, list[str]] | None = None, about: str = ""
) -> Table:
    """Return a table of the effects of interventions on the weights.

    Args:
        study: The study.
        cells: Its cells.
        more: Columns before these: heading → the texts of the cells.
        about: An explanation of `more`.
    """
    columns = {
        **(more or {}),
        **intervention_columns([cell.at_events for cell in cells]),
    }
    words = f"{intervention_words('squared change of the weights')}: means over the interventions listed below."
    return table_by_cell(study, cells, "Interventions", columns, f"{about} {words}".strip())


def have_interventions(cells: Sequence[Cell]) -> bool:
    return any(run.of_kind("intervention") for cell in cells for run in cell.runs)


def number_text(cell: Cell, name: str, which: str) -> str:
    """Return one of the values of a number, such as its `final` one, as text."""
    return spread_text(getattr(cell.numbers[name], which), is_share(name)) if name in cell.numbers else MISSING


def is_share(name: str) -> bool:
    return name.split("/")[0].endswith(SHARES)


def heading(name: str) -> str:
    return name.replace("_", " ") + (PERCENT if is_share(name) else "")


def _setting_text(value: object) -> str:
    return number(value) if isinstance(value, float) else str(value)
