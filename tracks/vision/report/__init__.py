"""Reports on classifiers: online accuracy and test accuracy, on one benchmark or several, and around shocks."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from supple.experiments.history.data import ComparisonData, RunData
from supple.reports.studies.content import Content, Report, SideBySide
from supple.reports.studies.side_by_side import gather

from .scores import ClassifierScores, score, to_json
from .tables import notes_of, sentences, tables

if TYPE_CHECKING:
    from supple.reports.figures.style import Plot


def compose(paths: Sequence[Path]) -> Content:
    """Return the report on one run or comparison, or on several runs, with benchmarks as columns and arms as rows."""
    studies = gather(paths)
    scores = {name: score(data) for name, data in studies.items()}

    def page(plots: "Sequence[Plot]", place: Path) -> str:
        from .page import render  # templates take a moment

        return render(studies, scores, plots, place)

    return Content(
        tables(studies, scores),
        to_json(studies, scores),
        lambda: _plots(studies, scores),
        page,
        sentences(scores) + notes_of(scores),
        [measure for of_benchmark in scores.values() for measure in of_benchmark.measures],
        runs=list(chain.from_iterable(data.runs for data in studies.values())),
    )


def benchmark(run: RunData) -> str:
    """Return the name of the benchmark of a run: `permuted mnist`, `split cifar-100, shocks`."""
    settings = run.settings
    return f"{settings.stream} {settings.dataset}".strip() + (", shocks" if settings.shock_every else "")


def _plots(studies: dict[str, ComparisonData], scores: dict[str, ClassifierScores]) -> list["Plot"]:
    """Return all figures for which there are data, benchmark by benchmark."""
    from supple.reports.figures.diagnostics import before_and_after, metrics_over_time
    from supple.reports.figures.old_tasks import plot_old_tasks

    from .plots import accuracy_by_task, accuracy_within_tasks, around_shocks

    several = len(studies) > 1
    plots = []
    for name, data in studies.items():
        drawn = [accuracy_by_task(data), *map(plot_old_tasks, scores[name].old_tasks), accuracy_within_tasks(data)]
        drawn += [around_shocks(data)]
        drawn += [*metrics_over_time(data), before_and_after(data)]
        plots += [plot.of(name if several else "") for plot in drawn if plot is not None]
    return plots


VISION = Report(compose, SideBySide("activation", benchmark))
