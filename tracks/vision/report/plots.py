"""Figures of classifiers: accuracy by task and within tasks, and saturation around shocks."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from supple.experiments.history.data import ComparisonData, RunData, Segment
from supple.reports.figures.style import (
    FORK,
    INK,
    MOST_SWITCHES,
    Plot,
    arm_styles,
    draw_band,
    draw_curves,
    legend,
    mark_stream,
    new_figure,
    seeds_phrase,
    step_unit,
    tidy,
)

from .scores import accuracies_between, counted_outcomes
from .shocks import Window, windows_by_factor

Array = NDArray[np.float64]
FEW_TASKS = 4  # as many have a panel each, in epochs
BY_TASK = {"online_accuracy": "online accuracy (%)", "test_accuracy": "test accuracy at the end of the task (%)"}


def accuracy_by_task(data: ComparisonData) -> Plot | None:
    """Plot the online accuracy and the test accuracy of each task, along the stream."""
    if max(len(run.outcomes) for run in data.runs) < 2:
        return None
    figure = new_figure(3.6)
    last = max(len(run.tasks) for run in data.runs)
    for axes, (name, title) in zip(figure.subplots(1, 2, sharey=True), BY_TASK.items(), strict=True):
        tidy(axes, title)
        draw_curves(axes, data, partial(_by_task, name), 1.0, last <= 20, 100.0)
        axes.set_xlabel("task", fontsize=9.5, color=INK)
        axes.set_xlim(min(1, last - 1), last)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend(figure, list(data.arms), bool(data.fork_step), data.labels)
    caption = (
        "Online: mean over a task's batches, each before its update. Test: after the task's last update"
        f"{_tested_on(data)}. Every arm sees the same tasks with the same seed. " + seeds_phrase(data.seeds)
    )
    return Plot("accuracy_by_task", "Accuracy by task", caption, figure)


def accuracy_within_tasks(data: ComparisonData) -> Plot | None:
    """Plot the test accuracy within tasks, if there are several tests per task."""
    tasks = max((run.tasks for run in data.runs), key=len)
    if len(tasks) > MOST_SWITCHES or not any(
        len(accuracies_between(run, t.start, t.end, t)) > 1 for run in data.runs for t in tasks
    ):
        return None
    figure = new_figure(3.6)
    if len(tasks) <= FEW_TASKS:
        for axes, task in zip(figure.subplots(1, len(tasks), squeeze=False, sharey=True)[0], tasks, strict=True):
            tidy(axes, f"task {task.index + 1}: {task.size:,} images" if task.size else f"task {task.index + 1}")
            epoch = _epoch(data.first, task)
            _draw_tests(axes, data, task, task.start, epoch)
            if data.fork_step and task.start <= data.fork_step < task.end:
                axes.axvline((data.fork_step - task.start) / epoch, **FORK)
            axes.set_xlabel("epochs of the task", fontsize=9.5, color=INK)
            axes.set_xlim(0, (task.end - task.start) / epoch)
    else:
        axes = figure.subplots()
        tidy(axes)
        divisor, label, _ = step_unit(data.total_steps, data.unit)
        mark_stream(axes, data.first, divisor, data.fork_step)
        for task in tasks:
            _draw_tests(axes, data, task, 0, divisor)
        axes.set_xlim(0, data.total_steps / divisor)
        axes.set_xlabel(label, fontsize=9.5, color=INK)
    figure.axes[0].set_ylabel("test accuracy (%)", fontsize=9.5, color=INK)
    legend(figure, list(data.arms), bool(data.fork_step), data.labels)
    caption = (
        f"Accuracy on the task's test images{_tested_on(data)} as it is learned; a value at the very start of a task "
        "is that of the network before its first update there, after whatever intervened. " + seeds_phrase(data.seeds)
    )
    return Plot("test_accuracy", "Test accuracy within tasks", caption, figure)


def around_shocks(data: ComparisonData) -> Plot | None:
    """Plot saturated fraction and test accuracy around shocks, by factor.

    The curves go from the epoch before a shock to the one before the next shock."""
    windows = {label: windows_by_factor(runs) for label, runs in data.arms.items()}
    gammas = sorted(set().union(*windows.values()))
    if not gammas:
        return None
    styles = arm_styles(data.labels)
    figure = new_figure(4.9)
    grid = figure.subplots(2, len(gammas), squeeze=False, sharex=True, sharey="row")
    for column, gamma in zip(grid.T, gammas, strict=True):
        tidy(column[0], f"γ = {gamma:g}")
        tidy(column[1])
        column[1].set_xlabel("epochs since the shock’s", fontsize=9.5, color=INK)
        for axes in column:
            axes.axvspan(-0.5, 0.5, color="#f1f0ec", zorder=0)
        for label, of_arm in windows.items():
            by_seed = of_arm.get(gamma, {})
            length = min((len(window.accuracy) for windows in by_seed.values() for window in windows), default=0)
            for axes, name in zip(column, ("saturation", "accuracy"), strict=True) if length else ():
                curves = [_mean_curve(windows, name, length) for windows in by_seed.values()]
                draw_band(axes, np.arange(-1.0, length - 1), 100 * np.stack(curves), styles[label], True, 100.0)
    grid[0, 0].set_ylabel("saturated pairs (%)", fontsize=9.5, color=INK)
    grid[1, 0].set_ylabel("test accuracy (%)", fontsize=9.5, color=INK)
    legend(figure, list(data.arms), among=data.labels)
    caption = (
        "For one epoch (shaded) all pre-activations are multiplied by γ, in training and in the test at its end. "
        "Saturated: (sample, unit) pairs of a recent batch with |φ′| < 0.001. Means over all shocks of a factor. "
        + seeds_phrase(data.seeds)
    )
    return Plot("shocks", "Around shocks", caption, figure)


def _by_task(name: str, run: RunData, low: float, high: float) -> tuple[Array, Array]:
    rows = [(row["task"] + 1, 100 * row[name]) for row in counted_outcomes(run) if low < row["step"] <= high]
    numbers, values = np.array(rows, dtype=np.float64).reshape(-1, 2).T
    return numbers, values


def _draw_tests(axes: Axes, data: ComparisonData, task: Segment, origin: float, divisor: float) -> None:
    """Draw the tests of one task over (step − origin) / divisor."""

    def curve(run: RunData, low: float, high: float) -> tuple[Array, Array]:
        if task.start >= low:
            low = task.start - 1  # the test at the very start is the task's, and at a fork the arm's
        pairs = accuracies_between(run, low, high, task) if task.start < high else []
        steps, values = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
        return (steps - origin) / divisor, 100 * values

    draw_curves(axes, data, curve, most=100.0)


def _epoch(run: RunData, task: Segment) -> float:
    """Return the number of updates in an epoch over a task's images."""
    return max(1.0, task.size / run.settings.batch_size)


def _tested_on(data: ComparisonData) -> str:
    labels = data.first.settings.stream == "random-labels"
    return ", on the task’s own images, for random labels have no others" if labels else ""


def _mean_curve(windows: Sequence[Window], name: str, length: int) -> Array:
    """Return the mean over a seed's windows of `saturation` or `accuracy`, (length,)."""
    mean: Array = np.mean([getattr(window, name)[:length] for window in windows], axis=0)
    return mean
