"""Tables on language models: pretraining, and what fine-tuning learned and retained."""

from collections.abc import Sequence

from supple.experiments.history.data import ComparisonData
from supple.reports.studies.evaluation_tables import (
    LOSS,
    heading,
    interventions_table,
    number_cells,
    table_by_cell,
)
from supple.reports.studies.evaluations import Cell, short_names
from supple.reports.tables.cells import Form, Number, Pair, Value
from supple.reports.tables.statistics import Spread
from supple.reports.tables.table import Columns, Table

STEPS = Form(digits=1)  # integers, with all digits


def pretraining_tables(study: ComparisonData, cells: Sequence[Cell]) -> list[Table]:
    """Return tables of the validation losses of each arm from each start.

    The losses are those of the phase, of each corpus, and around interventions."""
    losses: Columns = {
        "final val loss": number_cells(cells, "val_loss", "final"),
        "best": number_cells(cells, "val_loss", "best"),
    }
    parts = short_names(list(dict.fromkeys(n for cell in cells for n in cell.numbers if n.startswith("val_loss/"))))
    corpora: Columns = {}
    for name, corpus in parts.items():
        corpora[corpus] = number_cells(cells, name, "final")
        corpora[f"{corpus} − before"] = number_cells(cells, name, "gain")
    note = "In nats a token, at the end and the lowest of all evaluations."
    kept = (
        "Final validation loss on each corpus alone, and its change since before the intervention (as the arm none "
        "with the same seed began, where there is one): on the first phase’s corpus, what is kept of it."
    )
    around: Columns = {
        "from update": [_start(cell) for cell in cells],
        "val loss before": number_cells(cells, "val_loss", "base"),
        "after": number_cells(cells, "val_loss", "first"),
    }
    tables = [table_by_cell(study, cells, "Validation loss", losses, note)]
    if parts:
        tables.append(table_by_cell(study, cells, "On each corpus", corpora, kept))
    before = "The loss of the model as it was, and right after what intervened at the start."
    return [*tables, interventions_table(study, cells, around, before)]


def tuning_tables(study: ComparisonData, cells: Sequence[Cell]) -> list[Table]:
    """Return tables of learning and retention at the end, and of their differences from the initial model."""
    names = dict.fromkeys(name for cell in cells for name in cell.numbers if name != "train_loss")
    tables = []
    for title, prefix in (("Learned", "learn_"), ("Retained", "retain_")):
        columns: Columns = {}
        for name in (name for name in names if name.startswith(prefix)):
            columns[heading(name)] = number_cells(cells, name, "final")
            columns[f"{name.replace('_', ' ')} − base"] = number_cells(cells, name, "gain")
        note = (
            "At the end of training, and the difference to the base model, evaluated before the first update (of the "
            "arm none with the same seed, where there is one). Losses are in nats a token of the answers; differences "
            "of accuracies in percentage points."
        )
        tables.append(table_by_cell(study, cells, title, columns, note))
    return [*tables, interventions_table(study, cells)]


def gap_line(gaps: Sequence[tuple[Cell, Spread]]) -> str:
    """Return one line on how much lower the best arm ends than none, by start, or "" without such arms."""
    parts = [
        f"{best.words + ': ' if best.words else ''}{Number.of(spread, LOSS)} ({best.point.arm})"
        for best, spread in gaps
    ]
    return f"Gap of none to the best other arm (final val loss): {'; '.join(parts)}." if parts else ""


def _start(cell: Cell) -> Value:
    """Return the update at which a cell's runs began, or the first and the last one; None for 0."""
    starts = sorted({run.spec.start.step for run in cell.runs})
    if len(starts) > 1:
        return Pair(starts[0], starts[-1], (", first", ", last"), "{} to {}", STEPS)
    return Number(starts[0], form=STEPS) if starts[0] else None
