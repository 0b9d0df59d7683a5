"""Reports on classifiers: online accuracy and test accuracy, on one benchmark or several, and around shocks."""

from typing import TYPE_CHECKING

from supple.experiments.history.data import ComparisonData, RunData
from supple.reports.studies.content import Description, Report

from .scores import ClassifierScores, score, to_json
from .tables import benchmark_grid, shock_table, summary_table

if TYPE_CHECKING:
    from supple.reports.figures.style import Plot


def describe(data: ComparisonData) -> Description:
    """Return what there is to say of the runs on one benchmark."""
    scores = score(data)
    shocks = shock_table(scores)
    return Description(
        data,
        f"{benchmark(data.first)}, {data.first.settings.network}",
        to_json(data, scores),
        [summary_table(data, scores), *([shocks] if shocks else [])],
        scores.measures,
        lambda: _plots(data, scores),
        notes=scores.notes,
        old_tasks=scores.old_tasks,
    )


def benchmark(run: RunData) -> str:
    """Return the name of the benchmark of a run: `permuted mnist`, `split cifar-100, shocks`."""
    settings = run.settings
    return f"{settings.stream} {settings.dataset}".strip() + (", shocks" if settings.shock_every else "")


def _plots(data: ComparisonData, scores: ClassifierScores) -> "list[Plot | None]":
    from supple.reports.figures.diagnostics import before_and_after, metrics_over_time
    from supple.reports.figures.old_tasks import plot_old_tasks

    from .plots import accuracy_by_task, accuracy_within_tasks, around_shocks

    plots = [accuracy_by_task(data), *map(plot_old_tasks, scores.old_tasks), accuracy_within_tasks(data)]
    return [*plots, around_shocks(data), *metrics_over_time(data), before_and_after(data)]


VISION = Report("classifiers", describe, "activation", benchmark, benchmark_grid)
