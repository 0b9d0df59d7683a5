"""Figures of returns: learning curves along the stream, and final returns of each task."""

from collections.abc import Callable
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from supple.experiments.history.data import ComparisonData, RunData, Segment
from supple.reports.figures.style import (
    FAINT,
    INK,
    SHADE,
    Pieces,
    Plot,
    arm_styles,
    curves_by_style,
    draw_panels,
    legend,
    mark_stream,
    seeds_phrase,
    step_unit,
)

from .scores import AgentScores
from .tables import short_name

Array = NDArray[np.float64]
CurveInTask = Callable[[RunData, Segment, float, float], tuple[Array, Array]]  # (steps, values) between two steps
WINDOW, POINTS = 0.10, 40  # trailing window of the curves as a fraction of a task; points per task
COLUMNS = 4  # the most panels in a row
MOST_NAMED = 16  # tasks; the names of more would not fit
MARKS = {"intervention": "|", "explosion": "x"}  # event → marker


def plot_learning_curves(data: ComparisonData, scores: AgentScores) -> Plot | None:
    """Plot training returns, with one row and one scale per environment and a common axis of steps."""
    if not any(run.episodes.steps.size for run in data.runs):
        return None
    figure = _draw_stream(data, scores, _training_curve)
    for axes in figure.axes:
        _mark_events(axes, data)
    exploded = any(run.of_kind("explosion") for run in data.runs)
    burst = ", without episodes that ended in an explosion of physics (×)" * exploded
    caption = (
        f"Mean training return of the episodes that ended in the preceding {100 * WINDOW:.0f} % of a task: returns of "
        f"the exploring policy, not of an evaluation{burst}. Vertical lines: task switches. Marks at the bottom: "
        f"interventions. {seeds_phrase(data.seeds, len(data.arms))}"
    )
    return Plot("learning_curves", "Learning curves", caption, figure)


def plot_evaluation_curves(data: ComparisonData, scores: AgentScores) -> Plot | None:
    """Plot the returns of evaluations, if a task has more evaluations than the one at its end."""
    if not any(run.series("eval/return", task.index)[0].size > 1 for run in data.runs for task in run.tasks):
        return None
    figure = _draw_stream(
        data, scores, lambda run, task, low, high: run.series("eval/return", task.index, low, high), dots=True
    )
    settings = data.first.settings
    policy = f"ε = {epsilon:g}" if (epsilon := getattr(settings, "eval_epsilon", None)) else "no exploration"
    caption = (
        f"Mean return of {settings.eval_episodes or 'the'} episodes with {policy}, on separate environments, at each "
        "dot; the lines only join the dots. Each dot is one state of the network and few episodes, so part of the "
        f"variation is chance. {seeds_phrase(data.seeds, len(data.arms))}"
    )
    return Plot("evaluation", "Evaluation", caption, figure)


def _draw_stream(data: ComparisonData, scores: AgentScores, curve: CurveInTask, dots: bool = False) -> Figure:
    """Return a figure with one row per environment, in which the curves of its tasks are not joined."""
    run, rows = data.first, len(scores.environments)
    divisor, steps_label = step_unit(run.total_steps)
    panels: dict[str, Pieces] = {name: [] for name in scores.environments}
    for task in run.tasks:
        panels[scores.environments[task.index % rows]] += curves_by_style(data, partial(_within_task, curve, task))
    height = 1.7 if rows > 1 else 3.6
    figure, grid = draw_panels(panels, steps_label, height, divisor, dots, columns=1, sharex=True)
    for position, axes in enumerate(grid):
        mark_stream(axes, run, divisor, data.fork_step)
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
    grid[rows // 2 if rows > 1 else 0].set_ylabel("episode return", fontsize=9.5, color=INK)
    legend(figure, list(data.arms), bool(data.fork_step), data.labels)
    return figure


def _within_task(curve: CurveInTask, task: Segment, run: RunData, low: float, high: float) -> tuple[Array, Array]:
    start, end = max(low, task.start), min(high, task.end)
    return curve(run, task, start, end) if start < end else (np.empty(0), np.empty(0))


def _training_curve(run: RunData, task: Segment, start: float, end: float) -> tuple[Array, Array]:
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


def _mark_events(axes: Axes, data: ComparisonData) -> None:
    """Mark interventions and explosions of physics at the bottom of a panel, with one row per arm."""
    divisor, _ = step_unit(data.total_steps)
    styles = arm_styles(data.labels)
    for row, (label, runs) in enumerate(data.arms.items()):
        for kind, marker in MARKS.items():
            steps = {event["step"] / divisor for run in runs for event in run.of_kind(kind)}
            axes.scatter(
                list(steps), [0.03 + 0.03 * row] * len(steps), marker=marker, s=50, linewidths=1.8, zorder=3,
                color=styles[label]["color"], transform=axes.get_xaxis_transform(), clip_on=False,
            )  # fmt: skip


def plot_by_task(data: ComparisonData, scores: AgentScores) -> Plot | None:
    """Plot the final returns of the tasks of each environment, as small multiples."""
    if scores.cycles < 2 or not any(np.isfinite(arm.finals).any() for arm in scores.arms.values()):
        return None
    count = len(scores.environments)
    styles, visits = arm_styles(list(data.arms)), np.arange(float(scores.cycles))
    panels: dict[str, Pieces] = {}
    for position, name in enumerate(scores.environments):
        for label, arm in scores.arms.items():
            series = [(visits[known := np.isfinite(of)], of[known]) for of in arm.finals[:, :, position]]
            panels.setdefault(short_name(name), []).append((styles[label], series))
    figure, grid = draw_panels(panels, "task", 2.5, dots=True, columns=COLUMNS)
    for position, axes in enumerate(grid):
        axes.set_xticks(visits, [str(1 + position + count * visit) for visit in range(scores.cycles)])
    grid[0].set_ylabel("mean final return", fontsize=9)
    legend(figure, list(scores.arms))
    caption = (
        "Mean training return in the last 15 % of each task. A fall from one task of an environment to its next is a "
        "loss of plasticity, forgetting, or both: this figure cannot tell them apart. "
        + seeds_phrase(data.seeds, len(data.arms))
    )
    return Plot("by_task", "From task to task", caption, figure)
