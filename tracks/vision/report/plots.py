"""Figures of classifiers: accuracy by task and within tasks, and saturation around shocks."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.ticker import MaxNLocator

from supple.experiments.history.data import ComparisonData, RunData, Segment, Series
from supple.reports.figures.style import (
    MOST_SWITCHES,
    Pieces,
    Plot,
    arm_styles,
    curves_by_style,
    draw_panels,
    legend,
    legend_of,
    mark_stream,
    seeds_phrase_of,
    step_unit,
)

from .scores import accuracies_between, counted_outcomes
from .shocks import Window, windows_by_factor

BY_TASK = {"online_accuracy": "online accuracy (%)", "test_accuracy": "test accuracy at the end of the task (%)"}
AROUND_SHOCKS = {"saturation": "saturated pairs (%)", "accuracy": "test accuracy (%)"}


def accuracy_by_task(data: ComparisonData) -> Plot | None:
    """Plot the online accuracy and the test accuracy of each task, along the stream."""
    if max(len(run.outcomes) for run in data.runs) < 2:
        return None
    last = max(len(run.tasks) for run in data.runs)
    panels = {title: curves_by_style(data, partial(_by_task, name)) for name, title in BY_TASK.items()}
    figure, grid = draw_panels(panels, "task", 3.2, dots=last <= 20, sharey=True)
    for axes in grid:
        axes.set_xlim(min(1, last - 1), last)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_of(figure, data)
    caption = (
        "Online: mean over a task's batches, each before its update. Test: after the task's last update, on the task's "
        "own images if labels are random. Every arm sees the same tasks with the same seed. " + seeds_phrase_of(data)
    )
    return Plot("accuracy_by_task", "Accuracy by task", caption, figure)


def accuracy_within_tasks(data: ComparisonData) -> Plot | None:
    """Plot the test accuracy within tasks, if there are several tests per task."""
    tasks = max((run.tasks for run in data.runs), key=len)
    several = any(len(accuracies_between(run, t.start, t.end, t)) > 1 for run in data.runs for t in tasks)
    if len(tasks) > MOST_SWITCHES or not several:
        return None
    divisor, label = step_unit(data.total_steps, data.unit)
    figure, (axes,) = draw_panels({"": curves_by_style(data, partial(_tests, tasks))}, label, 3.2, divisor)
    mark_stream(axes, data, divisor)
    axes.set_ylabel("test accuracy (%)", fontsize=9.5)
    legend_of(figure, data)
    caption = (
        "Accuracy on the task's test images as it is learned; a value at the very start of a task "
        "is that of the network before its first update there, after whatever intervened. " + seeds_phrase_of(data)
    )
    return Plot("test_accuracy", "Test accuracy within tasks", caption, figure)


def around_shocks(data: ComparisonData) -> Plot | None:
    """Plot saturated fraction and test accuracy around shocks, by factor.

    The curves go from the epoch before a shock to the one before the next shock."""
    windows = {label: windows_by_factor(runs) for label, runs in data.arms.items()}
    gammas = sorted(set().union(*windows.values()))
    if not gammas:
        return None
    styles, panels = arm_styles(data.labels), {}
    for name, title in AROUND_SHOCKS.items():
        for gamma in gammas:
            pieces: Pieces = []
            for label, of_arm in windows.items():
                seeds = of_arm.get(gamma, {}).values()
                pieces.append((styles[label], [_mean_window(own, name) for own in seeds]))
            panels[f"γ = {gamma:g}: {title}"] = pieces
    figure, grid = draw_panels(
        panels, "epochs since the shock’s", 2.3, dots=True, columns=len(gammas), sharex=True, sharey="row"
    )
    for axes in grid:
        axes.axvspan(-0.5, 0.5, color="#f1f0ec", zorder=0)
    legend(figure, list(data.arms), among=data.labels)
    caption = (
        "For one epoch (shaded) all pre-activations are multiplied by γ, in training and in the test at its end. "
        "Saturated: (sample, unit) pairs of a recent batch with |φ′| < 0.001. Means over all shocks of a factor. "
        + seeds_phrase_of(data)
    )
    return Plot("shocks", "Around shocks", caption, figure)


def _mean_window(windows: Sequence[Window], name: str) -> Series:
    """Return the epochs that all windows have, and the mean over windows, in %."""
    length = min(len(window.accuracy) for window in windows)
    values = np.mean([getattr(window, name)[:length] for window in windows], axis=0)
    return np.arange(-1.0, length - 1), 100 * values


def _by_task(name: str, run: RunData, low: float, high: float) -> Series:
    rows = [(row["task"] + 1, 100 * row[name]) for row in counted_outcomes(run) if low < row["step"] <= high]
    numbers, values = np.array(rows, dtype=np.float64).reshape(-1, 2).T
    return numbers, values


def _tests(tasks: Sequence[Segment], run: RunData, low: float, high: float) -> Series:
    """Return the tests of these tasks, in %, over steps.

    A test at the very start of a task is that of this task, at a fork that of the arm, and half an update later than
    the last test of the task before.
    """
    pairs = []
    for task in (task for task in tasks if task.start < high):
        since = task.start - 1 if task.start >= low else low
        for step, accuracy in accuracies_between(run, since, high, task):
            pairs.append((step + 0.5 * (step == task.start), accuracy))
    steps, values = np.array(sorted(pairs), dtype=np.float64).reshape(-1, 2).T
    return steps, 100 * values
