"""Figures of curves along a stream of tasks, with one row per environment."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from supple.experiments.history.data import ComparisonData, RunData, Segment, Series

from .style import FAINT, INK, SHADE, Pieces, curves_by_style, draw_panels, legend_of, mark_stream, step_unit

CurveInTask = Callable[[RunData, Segment, float, float], Series]  # (steps, values) between two steps
WINDOW, POINTS = 0.10, 40  # trailing window of the curves as a fraction of a task; points per task
MOST_NAMED = 16  # tasks; the names of more would not fit


def draw_stream(
    data: ComparisonData, environments: Sequence[str], curve: CurveInTask, what: str, dots: bool = False
) -> Figure:
    """Return a figure with one row per environment, in which the curves of its tasks are not joined.

    Args:
        data: The runs.
        environments: The title of each row; the tasks visit them in turn.
        curve: Returns the curve of a run in a task, between two steps.
        what: The name of the vertical axis.
        dots: Whether to mark the points that the lines join.
    """
    run, rows = data.first, len(environments)
    divisor, steps_label = step_unit(data.total_steps, data.unit)
    panels: dict[str, Pieces] = {name: [] for name in environments}
    for place in range(max(len(run.tasks) for run in data.runs)):
        panels[environments[place % rows]] += curves_by_style(data, partial(_within_task, curve, place))
    height = 1.7 if rows > 1 else 3.6
    figure, grid = draw_panels(panels, steps_label, height, divisor, dots, columns=1, sharex=True)
    for position, axes in enumerate(grid):
        mark_stream(axes, data, divisor)
        axes.margins(y=0.12)  # room for the names of tasks
        for task in run.tasks[position::rows]:
            start, end = task.start / divisor, task.end / divisor
            if rows > 1:
                axes.axvspan(start, end, color=SHADE, zorder=-1, linewidth=0)
            if 1 < len(run.tasks) <= MOST_NAMED:
                axes.annotate(
                    f"task {task.index + 1}", (end, 0), (-5, 5), xycoords=axes.get_xaxis_transform(),
                    textcoords="offset points", ha="right", fontsize=8.5, color=FAINT,
                )  # fmt: skip
    grid[rows // 2 if rows > 1 else 0].set_ylabel(what, fontsize=9.5, color=INK)
    legend_of(figure, data)
    return figure


def _within_task(curve: CurveInTask, place: int, run: RunData, low: float, high: float) -> Series:
    for task in run.tasks[place : place + 1]:  # which another run may begin at another step, or not have
        start, end = max(low, task.start), min(high, task.end)
        if start < end:
            return curve(run, task, start, end)
    return np.empty(0), np.empty(0)


def training_curve(run: RunData, task: Segment, start: float, end: float) -> Series:
    """Return (steps, mean returns of the training episodes in the trailing window), where there are any."""
    in_stretch = (run.episodes.tasks == task.index) & ~run.episodes.exploded
    in_stretch &= (run.episodes.steps > start) & (run.episodes.steps <= end)
    at, returns = run.episodes.steps[in_stretch], run.episodes.returns[in_stretch]
    length = task.end - task.start
    points = max(2, round(POINTS * (end - start) / length))
    grid = np.linspace(start, min(end, run.last_step), points + 1)[1:]
    order = np.argsort(at, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(returns[order])])
    upto = np.searchsorted(at[order], grid, side="right")
    since = np.searchsorted(at[order], grid - WINDOW * length, side="right")
    count = upto - since
    return grid[count > 0], (sums[upto] - sums[since])[count > 0] / count[count > 0]
