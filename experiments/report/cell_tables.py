"""Numbers of language models as words: one row an arm in a variant of the settings."""

from collections.abc import Sequence

import numpy as np

from .classifiers import Spread
from .language import Study
from .language_scores import Cell, Gap, Number, short_names
from .tables import MISSING, Table, number

SHARES = ("accuracy", "score", "rouge_l", "sari", "similarity")  # of names whose numbers are shares, shown in %


def pretraining(study: Study, cells: Sequence[Cell]) -> list[Table]:
    """Validation losses of each arm from each start: of the phase, of each corpus, and around what intervened."""
    losses = {
        "final val loss": [_text(cell, "val_loss", "final") for cell in cells],
        "best": [_text(cell, "val_loss", "best") for cell in cells],
        "final − none": [_text(cell, "val_loss", "minus_none") for cell in cells],
    }
    parts = short_names(list(dict.fromkeys(n for cell in cells for n in cell.numbers if n.startswith("val_loss/"))))
    corpora: dict[str, list[str]] = {}
    for name, corpus in parts.items():
        corpora[corpus] = [_text(cell, name, "final") for cell in cells]
        corpora[f"{corpus} − before"] = [_text(cell, name, "gain") for cell in cells]
    words = "In nats a token, at the end and the lowest of all evaluations; final − none is paired by seed."
    kept = (
        "Final validation loss on each corpus alone, and its change since before the intervention (as the arm none "
        "with the same seed began, where there is one): on the first phase’s corpus, what is kept of it."
    )
    around = {
        "from update": [_start(cell) for cell in cells],
        "val loss before": [_text(cell, "val_loss", "base") for cell in cells],
        "after": [_text(cell, "val_loss", "first") for cell in cells],
    }
    tables = [table_of(study, cells, "Validation loss", losses, words)]
    if parts:
        tables.append(table_of(study, cells, "On each corpus", corpora, kept))
    before = "The loss of the model as it was, and right after what intervened at the start."
    return [*tables, interventions(study, cells, around, before)]


def tuning(study: Study, cells: Sequence[Cell]) -> list[Table]:
    """What was learned and what was retained, at the end and against the model as it was."""
    names = dict.fromkeys(name for cell in cells for name in cell.numbers if name != "train_loss")
    tables = []
    for title, prefix in (("Learned", "learn_"), ("Retained", "retain_")):
        columns: dict[str, list[str]] = {}
        for name in (name for name in names if name.startswith(prefix)):
            columns[_heading(name)] = [_text(cell, name, "final") for cell in cells]
            columns[f"{_heading(name).removesuffix(' (%)')} − base"] = [_text(cell, name, "gain") for cell in cells]
        words = (
            "At the end of training, and the difference to the base model, evaluated before the first update (of the "
            "arm none with the same seed, where there is one). Losses are in nats a token of the answers; differences "
            "of accuracies in percentage points."
        )
        tables.append(table_of(study, cells, title, columns, words))
    return [*tables, *([interventions(study, cells)] if intervened(cells) else [])]


def plain(study: Study, cells: Sequence[Cell]) -> list[Table]:
    """All that was evaluated, at the start and at the end."""
    names = dict.fromkeys(name for cell in cells for name in cell.numbers)
    columns: dict[str, list[str]] = {}
    for name in names:
        columns[f"{_heading(name)}, at the start"] = [_text(cell, name, "first") for cell in cells]
        columns[f"{_heading(name)}, final"] = [_text(cell, name, "final") for cell in cells]
    table = table_of(study, cells, "Summary", columns, "Before the first update and after the last.")
    return [table, *([interventions(study, cells)] if intervened(cells) else [])]


def gap_line(gaps: Sequence[Gap]) -> str:
    """One line: how much lower the best arm ends than none, from start to start; "" without such arms."""
    parts = [
        f"{gap.group.words + ': ' if gap.group.variant else ''}{spread_text(gap.spread)} ({gap.arm})" for gap in gaps
    ]
    return f"Gap of none to the best other arm (final val loss): {'; '.join(parts)}." if parts else ""


def spread_text(spread: Spread, percent: bool = False, digits: int = 3) -> str:
    """`3.123 ± 0.004`, mean and unbiased deviation over seeds; shares in %."""
    scale, digits = (100.0, 2) if percent else (1.0, digits)
    if not np.isfinite(spread.mean):
        return MISSING
    text = f"{round(scale * spread.mean, digits) + 0.0:.{digits}f}"
    if np.isfinite(spread.sd):
        text += f" ± {scale * spread.sd:.{digits}f}"
    return text.replace("-", "−")


def table_of(study: Study, cells: Sequence[Cell], title: str, columns: dict[str, list[str]], words: str) -> Table:
    """A row a cell: the settings that vary, the arm, its seeds, and those columns that have anything in them."""
    settings = {
        name.replace("_", " "): [_value(cell.group.variant.get(name)) for cell in cells] for name in study.varied
    }
    arms = {"arm": [cell.arm for cell in cells]}
    lead = settings | arms if len(study.arms) > 1 or not settings else settings
    shown = {heading: texts for heading, texts in columns.items() if set(texts) != {MISSING}}
    header = {**lead, "seeds": [str(len(cell.runs)) for cell in cells], **shown}
    spread = "± is one standard deviation over seeds (unbiased)."
    single = "1 seed: no deviation; differences may be chance."
    rows = [list(row) for row in zip(*header.values(), strict=True)]
    return Table(title, list(header), rows, f"{words} {single if study.seeds == 1 else spread}".strip())


def interventions(
    study: Study, cells: Sequence[Cell], more: dict[str, list[str]] | None = None, about: str = ""
) -> Table:
    """What interventions did to the weights, after `more` columns, which `about` explains."""
    columns = {
        **(more or {}),
        "SFE": [number(cell.at_events["sfe"]) for cell in cells],
        "DfI (scale-free)": [arrow(cell, "dfi_unscaled") for cell in cells],
    }
    words = "SFE (squared change of the weights) and DfI before → after: means over the interventions, listed below."
    return table_of(study, cells, "What intervened", columns, f"{about} {words}".strip())


def intervened(cells: Sequence[Cell]) -> bool:
    return any(run.of_kind("intervention") for cell in cells for run in cell.runs)


def _start(cell: Cell) -> str:
    """The update at which a cell's runs began, of several the range; a dash for 0."""
    starts = [int(run.config.get("start_step", 0)) for run in cell.runs]
    return " to ".join(f"{start:,}" for start in dict.fromkeys((min(starts), max(starts)))) if any(starts) else MISSING


def _text(cell: Cell, name: str, which: str) -> str:
    found = cell.numbers.get(name)
    return MISSING if found is None else spread_text(_of(found, which), is_share(name))


def _of(found: Number, which: str) -> Spread:
    spread: Spread = getattr(found, which)
    return spread


def is_share(name: str) -> bool:
    return name.split("/")[0].endswith(SHARES)


def _heading(name: str) -> str:
    return name.replace("_", " ") + (" (%)" if is_share(name) else "")


def _value(value: object) -> str:
    return number(value) if isinstance(value, float) else str(value)


def arrow(cell: Cell, name: str) -> str:
    """`0.135 → 8.83`: a metric around interventions."""
    before, after = (number(cell.at_events[f"{name}_{side}"]) for side in ("before", "after"))
    return MISSING if before == after == MISSING else f"{before} → {after}"
