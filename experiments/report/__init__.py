"""Reports: from run directories, or a comparison of arms, to a page, figures and a table of scores."""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import classifiers, language_continual, language_scores
from .collect import LOOPED, ComparisonData, RunData, kind_of, load, read_jsonl
from .language import Study, read_study
from .scores import ArmScores, Scores, score, to_json
from .side_by_side import gather
from .tables import Table, summary_rows

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table as RichTable

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


def build_report(*directories: Path, out: Path | None = None) -> ReportPaths:
    """Write `out/report/`: index.html, the figures it shows, and scores.json.

    directories: a run directory, or a comparison directory of `supple compare`, or several runs of classifiers, or of
        one kind of language models or linear networks, to show side by side; unfinished ones are reported as far as
        they came.
    out: by default the directory itself; several need one. It is made where it is not there. The report is written
        beside its place and then swapped in, so a reader never sees half of one.

    scores.json is strict JSON; what was not measured is null. Keys, for agents:
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

    For classifiers: `supple`, `algorithm`, and `benchmarks`: stream and data set →
        `fork_step`, `total_updates`, `tasks`: as planned; `data`: the source in words; `notes`; and
        `arms`: label → `seeds`, `tasks` (finished ones), the measures of `classifiers.measures_of` and, by factor
        γ, those of `shocks.ShockScores`, each with `mean`, `sd` (unbiased), `iqm`, `interval` (bootstrap, 95 %; null
        with one seed) and `per_seed`; `interventions`, `at_interventions`, `units_replaced`.
    Accuracies are shares in [0, 1].

    For language models and linear networks: `supple`, `algorithm` (pretrain, sft, clip, continual or linear), `data`,
    `tasks`, `notes`, and `variants`, one for each variant of the settings: `variant` (setting → value) and
    `arms`: label →
        `seeds`, `updates` (as planned, from where the run began), `start_step`, `finished`, `interventions`,
        `at_interventions`; for every number that was evaluated its `base` (the model before anything was done to it: of
        the arm `none`, where there is one), `first` (before the first update, after what intervened then), `final`,
        `best`, `gain` (final − base) and `minus_none` (final − that of `none`, paired by seed); and of continual
        learning `tasks`, `scores` (seeds, after task, of task), `scores_before`, `op`, `bwt` (eq. 10: positive is
        forgotten), `transfer`, `average`, `last` and the last three `by_task`.
        Each is `mean`, `sd` (unbiased) and `per_seed`; null for runs that are not at their end.
    `gaps`: for each variant of a pretraining, `none` − the `best_arm`'s final validation loss.

    Raises ValueError, in one line, for a directory that holds neither a run nor a comparison, a damaged file, several
    directories without `out`, and runs that do not go side by side.
    """
    report = _compose(directories)
    if out is None and len(directories) > 1:
        raise ValueError("several runs side by side need a folder for their report (--out DIR)")
    place = Path(out or directories[0])
    place.mkdir(parents=True, exist_ok=True)
    target, temporary, old = (place / name for name in ("report", "report.tmp", "report.old"))
    for leftover in (temporary, old):
        shutil.rmtree(leftover, ignore_errors=True)
    temporary.mkdir()
    try:
        plots = report.plots()
        for plot in plots:
            plot.figure.savefig(temporary / f"{plot.name}.png")
        body = json.dumps(report.scores, indent=2, allow_nan=False, ensure_ascii=False)
        (temporary / "scores.json").write_text(body + "\n", encoding="utf-8")
        (temporary / "index.html").write_text(report.page(plots), encoding="utf-8")
        if target.exists():
            target.rename(old)
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)
    figures = tuple(target / f"{plot.name}.png" for plot in plots)
    return ReportPaths(target / "index.html", figures, target / "scores.json")


def summary_table(*directories: Path) -> "Group":
    """The report's tables for the terminal."""
    from rich.console import Group
    from rich.text import Text

    report = _compose(directories)
    tables = report.tables
    if len(directories) == 1:
        tables[0] = replace(tables[0], title=str(directories[0]))
    return Group(*map(_printable, tables), *map(Text, report.lines))


def _printable(plain: Table) -> "RichTable":
    """A table with a column for each arm, or rows where there are more of them than measures, or several an arm."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable

    lines = [plain.header, *plain.rows]
    if len({row[0] for row in plain.rows}) == len(plain.rows) < len(plain.header):
        lines = [list(line) for line in zip(*lines, strict=True)]
    table = RichTable(title=plain.title, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    table.add_column("" if lines[0][0] == "arm" else lines[0][0], no_wrap=True)
    for name in lines[0][1:]:
        table.add_column(name, justify="right", overflow="fold")
    for line in lines[1:]:
        table.add_row(*line)
    return table


@dataclass(frozen=True)
class _Report:
    """What a report says; figures and page, which take longer, are made when asked for. lines: what the terminal has
    below the tables."""

    tables: "list[Table]"
    scores: dict[str, Any]
    plots: "Callable[[], list[Plot]]"
    page: "Callable[[list[Plot]], str]"
    lines: list[str] = field(default_factory=list)


def _compose(directories: Sequence[Path]) -> _Report:
    paths = [Path(directory) for directory in directories]
    if kind_of(paths[0]) in LOOPED:
        return _of_language(paths)
    data = load(paths[0]) if len(paths) == 1 else None
    if data is None or data.first.classifies:
        return _of_classifiers(gather(paths))
    return _of_agents(data)


def _of_agents(data: ComparisonData) -> _Report:
    from .page import render

    scores = score(data)
    table = Table("Summary", *summary_rows(scores))
    return _Report([table], to_json(data, scores), lambda: _plots(data, scores), partial(render, data, scores))


def _of_classifiers(studies: dict[str, ComparisonData]) -> _Report:
    from .classifier_page import render, tables

    scores = {name: classifiers.score(data) for name, data in studies.items()}
    return _Report(
        tables(studies, scores),
        classifiers.to_json(studies, scores),
        lambda: _classifier_plots(studies),
        partial(render, studies, scores),
    )


def _of_language(paths: Sequence[Path]) -> _Report:
    from .language_page import render, words

    study = read_study(paths)
    cells = language_scores.score(study)
    found = language_continual.learned(cells) if study.kind == "continual" else []
    said = words(study, cells, found)
    return _Report(
        said.tables,
        language_scores.to_json(study, cells, [language_continual.to_json(each) for each in found]),
        lambda: _language_plots(study, cells, found),
        partial(render, study, said),
        [*said.lines, *study.notes],
    )


def _language_plots(
    study: Study, cells: Sequence[language_scores.Cell], found: Sequence[language_continual.Learned]
) -> list["Plot"]:
    """Every figure that the data allow: those of the kind, then those of every run."""
    from .atom_maps import stored_maps
    from .fronts import fronts, trade_off
    from .language_plots import first_phase, of_views, validation_loss
    from .score_matrix import along_the_stream, matrices

    traded = trade_off(cells) if study.kind == "sft" else None
    plots = [
        validation_loss(study),
        first_phase(study),
        fronts(traded) if traded else None,
        along_the_stream(study, found),
        matrices(study, found),
        stored_maps(study),
    ]
    return [*(plot for plot in plots if plot is not None), *of_views(study)]


def _classifier_plots(studies: dict[str, ComparisonData]) -> list["Plot"]:
    """Every figure that the data allow, benchmark by benchmark."""
    from .classifier_plots import accuracy_by_task, accuracy_within_tasks, around_shocks
    from .diagnostics import before_and_after, metrics_over_time

    makers = [accuracy_by_task, accuracy_within_tasks, around_shocks, metrics_over_time, before_and_after]
    plots = []
    for name, data in studies.items():
        found = [plot for make in makers if (plot := make(data)) is not None]
        if len(studies) > 1:
            short = re.sub(r"[^a-z0-9]+", "_", name.lower())
            found = [replace(p, name=f"{short}_{p.name}", title=f"{p.title}: {name}") for p in found]
        plots += found
    return plots


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
