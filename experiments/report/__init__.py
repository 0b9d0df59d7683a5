"""Reports: from a run directory, or a comparison of arms, to a page, figures and a table of scores."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .collect import ComparisonData, RunData, load, read_jsonl
from .scores import ArmScores, Scores, score, to_json
from .tables import summary_rows

if TYPE_CHECKING:
    from rich.table import Table

    from .style import Plot

__all__ = [
    "ArmScores",
    "ComparisonData",
    "ReportPaths",
    "RunData",
    "Scores",
    "build_report",
    "load",
    "read_jsonl",
    "score",
    "summary_table",
]


@dataclass(frozen=True)
class ReportPaths:
    """Where a report lies."""

    html: Path
    figures: tuple[Path, ...]
    scores: Path


def build_report(directory: Path) -> ReportPaths:
    """Write `directory/report/`: index.html, the figures it shows, and scores.json.

    directory: a run directory, or a comparison directory of `supple compare`; unfinished ones are reported as far
        as they came. The report is written beside its place and then swapped in, so a reader never sees half of one.

    scores.json is strict JSON; what was not measured is null. Keys:
    `supple`, `algorithm`, `total_steps`, `fork_step` (null for a single run), `environments` (a label for each
    position in the sequence), `cycles`, `notes` (what is missing, in words), `human_normalized_from` ("evaluation"
    or "training", the returns that were human-normalised, see `scores.score`), and `arms`: label →
        `seeds`: the seeds, in the order of every list below;
        `plasticity_score`, `plasticity_score_interval`: IQM and [low, high] at 95 % (null with one seed);
        `human_normalized`, `human_normalized_interval`: the same of the human-normalised scores, and their
        `human_normalized_per_seed`: (seeds, environments), null for a run that did not enter;
        `final_return`: last cycle's mean training return in the final 15 % of each environment, mean over seeds;
        `final_return_per_seed`: (seeds, environments);
        `train_return`, `evaluation_return`, `test_return`: (seeds, cycles, environments), training in the final 15 %,
        the last evaluation there, and the same on the held-out friction;
        `generalization_gap`: (cycles, environments), train − test, mean over seeds, failures 0;
        `gap_change_iqm`: ΔGAP, last − first cycle, IQM over seeds and environments;
        `explosions`, `interventions`: counts over all seeds;
        `at_interventions`: means of `sfe`, `sfe_normalized`, `dfi_unscaled_before`, `dfi_unscaled_after`.

    Raises ValueError, in one line, if the directory holds neither a run nor a comparison, or a damaged file.
    """
    from .page import render

    directory = Path(directory)
    data = load(directory)
    scores = score(data)
    target, temporary, old = (directory / name for name in ("report", "report.tmp", "report.old"))
    for leftover in (temporary, old):
        shutil.rmtree(leftover, ignore_errors=True)
    temporary.mkdir()
    try:
        plots = _plots(data, scores)
        for plot in plots:
            plot.figure.savefig(temporary / f"{plot.name}.png")
        body = json.dumps(to_json(data, scores), indent=2, allow_nan=False, ensure_ascii=False)
        (temporary / "scores.json").write_text(body + "\n", encoding="utf-8")
        (temporary / "index.html").write_text(render(data, scores, plots), encoding="utf-8")
        if target.exists():
            target.rename(old)
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)
    figures = tuple(target / f"{plot.name}.png" for plot in plots)
    return ReportPaths(target / "index.html", figures, target / "scores.json")


def summary_table(directory: Path) -> "Table":
    """The report's summary of a run or comparison directory, for the terminal: a column for each arm."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    header, rows = summary_rows(score(load(Path(directory))))
    table = Table(title=str(directory), title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    table.add_column(no_wrap=True)
    for row in rows:
        table.add_column(row[0], justify="right", overflow="fold")
    for name, *values in list(zip(header, *rows, strict=True))[1:]:
        table.add_row(name, *values)
    return table


def _plots(data: ComparisonData, scores: Scores) -> list["Plot"]:
    """Every figure that the data allow, in the order of the page."""
    from .aggregates import human, plasticity
    from .diagnostics import before_and_after, gap_heatmap, metrics_over_time
    from .plots import by_cycle, evaluation_curves, final_returns, learning_curves

    makers: list[Callable[[ComparisonData, Scores], Plot | None]] = [
        plasticity,
        human,
        learning_curves,
        evaluation_curves,
        final_returns,
        by_cycle,
        metrics_over_time,
        before_and_after,
        gap_heatmap,
    ]
    return [plot for make in makers if (plot := make(data, scores)) is not None]
