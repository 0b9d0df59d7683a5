"""Reports on classifiers: online accuracy and test accuracy, on one benchmark or several, and around shocks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from supple.experiments.history.data import ComparisonData, RunData
from supple.reports.studies.content import Description, Report
from supple.reports.tables.old_tasks import OldTasks, read_old_tasks

from .scores import compared_measures, notes_of, online_accuracies, score_arm, to_json
from .tables import benchmark_grid, shock_table, summary_table

if TYPE_CHECKING:
    from supple.reports.figures.style import Plot


def describe(data: ComparisonData) -> Description:
    """Return what there is to say of the runs on one benchmark."""
    arms = {label: score_arm(runs, data.fork_step or 0) for label, runs in data.arms.items()}
    old_tasks = read_old_tasks(data, online_accuracies)
    return Description(
        data,
        f"{benchmark(data.first)}, {data.first.settings.network}",
        to_json(data, arms, old_tasks),
        [summary_table(data, arms), shock_table(arms)],
        compared_measures(data, arms),
        lambda: _plots(data, old_tasks),
        notes=notes_of(data, arms),
        old_tasks=old_tasks,
    )


def benchmark(run: RunData) -> str:
    """Return the name of the benchmark of a run: `permuted mnist`, `split cifar-100, shocks`."""
    settings = run.settings
    return f"{settings.stream} {settings.dataset}".strip() + (", shocks" if settings.shock_every else "")


def _plots(data: ComparisonData, old_tasks: Sequence[OldTasks]) -> "list[Plot | None]":
    from supple.reports.figures.diagnostics import before_and_after, metrics_over_time
    from supple.reports.figures.heat_maps import plot_old_tasks

    from .plots import accuracy_by_task, accuracy_within_tasks, around_shocks

    plots = [accuracy_by_task(data), *map(plot_old_tasks, old_tasks), accuracy_within_tasks(data)]
    return [*plots, around_shocks(data), *metrics_over_time(data), before_and_after(data)]


VISION = Report("classifiers", describe, "activation", benchmark, benchmark_grid, task="image-classification")
