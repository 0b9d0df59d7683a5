"""Tables on language models: pretraining, and what fine-tuning learned and retained."""

from collections.abc import Sequence

from ....reports.studies.evaluation_tables import (
    have_interventions,
    heading,
    interventions_table,
    number_text,
    spread_text,
    table_by_cell,
)
from ....reports.studies.evaluations import Cell, Gap, short_names
from ....reports.studies.study import ReportedStudy
from ....reports.tables.table import MISSING, Table


def pretraining_tables(study: ReportedStudy, cells: Sequence[Cell]) -> list[Table]:
    """Return tables of the validation losses of each arm from each start.

    The losses are those of the phase, of each corpus, and around interventions."""
    losses = {
        "final val loss": [number_text(cell, "val_loss", "final") for cell in cells],
        "best": [number_text(cell, "val_loss", "best") for cell in cells],
    }
    parts = short_names(list(dict.fromkeys(n for cell in cells for n in cell.numbers if n.startswith("val_loss/"))))
    corpora: dict[str, list[str]] = {}
    for name, corpus in parts.items():
        corpora[corpus] = [number_text(cell, name, "final") for cell in cells]
        corpora[f"{corpus} − before"] = [number_text(cell, name, "gain") for cell in cells]
    note = "In nats a token, at the end and the lowest of all evaluations."
    kept = (
        "Final validation loss on each corpus alone, and its change since before the intervention (as the arm none "
        "with the same seed began, where there is one): on the first phase’s corpus, what is kept of it."
    )
    around = {
        "from update": [_start(cell) for cell in cells],
        "val loss before": [number_text(cell, "val_loss", "base") for cell in cells],
        "after": [number_text(cell, "val_loss", "first") for cell in cells],
    }
    tables = [table_by_cell(study, cells, "Validation loss", losses, note)]
    if parts:
        tables.append(table_by_cell(study, cells, "On each corpus", corpora, kept))
    before = "The loss of the model as it was, and right after what intervened at the start."
    return [*tables, interventions_table(study, cells, around, before)]


def tuning_tables(study: ReportedStudy, cells: Sequence[Cell]) -> list[Table]:
    """Return tables of learning and retention at the end, and of their differences from the initial model."""
    names = dict.fromkeys(name for cell in cells for name in cell.numbers if name != "train_loss")
    tables = []
    for title, prefix in (("Learned", "learn_"), ("Retained", "retain_")):
        columns: dict[str, list[str]] = {}
        for name in (name for name in names if name.startswith(prefix)):
            columns[heading(name)] = [number_text(cell, name, "final") for cell in cells]
            columns[f"{heading(name).removesuffix(' (%)')} − base"] = [
                number_text(cell, name, "gain") for cell in cells
            ]
        note = (
            "At the end of training, and the difference to the base model, evaluated before the first update (of the "
            "arm none with the same seed, where there is one). Losses are in nats a token of the answers; differences "
            "of accuracies in percentage points."
        )
        tables.append(table_by_cell(study, cells, title, columns, note))
    return [*tables, *([interventions_table(study, cells)] if have_interventions(cells) else [])]


def gap_line(gaps: Sequence[Gap]) -> str:
    """Return one line on how much lower the best arm ends than none, by start, or "" without such arms."""
    parts = [
        f"{gap.group.words + ': ' if gap.group.variant else ''}{spread_text(gap.spread)} ({gap.arm})" for gap in gaps
    ]
    return f"Gap of none to the best other arm (final val loss): {'; '.join(parts)}." if parts else ""


def _start(cell: Cell) -> str:
    """Return the update at which a cell's runs began, as a range if there are several, or a dash for 0."""
    starts = [int(run.config.get("start_step", 0)) for run in cell.runs]
    return " to ".join(f"{start:,}" for start in dict.fromkeys((min(starts), max(starts)))) if any(starts) else MISSING
