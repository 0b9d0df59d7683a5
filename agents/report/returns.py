"""Figures of returns: learning curves along the stream, and final returns of each task."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from supple.experiments.history.data import ComparisonData, RunData, Segment
from supple.reports.figures.style import (
    FAINT,
    INK,
    MOST_SWITCHES,
    SHADE,
    Plot,
    arm_styles,
    draw_band,
    draw_curves,
    legend,
    mark_stream,
    new_figure,
    new_panels,
    on_common_steps,
    seeds_phrase,
    step_unit,
    tidy,
)
from supple.reports.pages.opening import count_text
from supple.reports.tables.cells import number
from supple.reports.tables.statistics import mean

from .areas import areas
from .scores import AgentScores
from .tables import short_name

Array = NDArray[np.float64]
CurveInTask = Callable[[RunData, Segment, float, float], tuple[Array, Array]]  # (steps, values) between two steps
WINDOW, POINTS = 0.10, 40  # trailing window of the curves as a fraction of a task; points per task
COLUMNS = 4  # the most panels in a row
MOST_SAID = 40  # numbers in the words of a figure
MOST_NAMED = 16  # tasks; the names of more would not fit
# The events that are marked: title, marker, size.
MARKS = {"intervention": ("Interventions  |", "|", 60), "explosion": ("explosions  ×", "x", 22)}


def plot_learning_curves(data: ComparisonData, scores: AgentScores) -> Plot | None:
    """Plot training returns, with one row and one scale per environment and a common axis of steps."""
    if not any(run.episodes.steps.size for run in data.runs):
        return None
    marks = [kind for kind in MARKS if kind in _kinds_in(data.runs)]
    figure = _draw_stream(data, scores, _training_curve, marks, dots=False)
    switches = "Vertical lines: task switches. " if 1 < len(data.first.tasks) <= MOST_SWITCHES else ""
    burst = " and leave out episodes that ended in an explosion of physics (×)" if "explosion" in marks else ""
    rows = "; each row has its own scale" if len(scores.environments) > 1 else ""
    caption = (
        f"Mean training return of the episodes that ended in the preceding {100 * WINDOW:.0f} % of a task{rows}. "
        f"These are returns of the exploring policy, not of an evaluation{',' if burst else ''}{burst}. "
        f"{switches}{_means_by_task(data, scores)}{_describe_jump(data)}{seeds_phrase(data.seeds)}"
    )
    return Plot("learning_curves", "Learning curves", caption, figure)


def _means_by_task(data: ComparisonData, scores: AgentScores) -> str:
    """Return what the curves show, as a sentence: the mean return of each arm in each task; "" for too many."""
    if len(scores.environments) > 1 or len(data.arms) * len(data.first.tasks) > MOST_SAID:
        return ""
    means = {label: mean(np.stack([*map(areas, runs)]), axis=0) for label, runs in data.arms.items()}
    words = [f"{label} {', '.join(map(number, row))}" for label, row in means.items() if np.isfinite(row).any()]
    return f"Mean return{' by task' if len(data.first.tasks) > 1 else ''}: {'; '.join(words)}. " if words else ""


def _describe_jump(data: ComparisonData) -> str:
    """Return the sentence on the curve that falls most after its first point in a task; "" if none falls by half."""
    falls = []
    for label, runs in data.arms.items():
        for task in (task for task in data.first.tasks[1:] if task.start >= (data.fork_step or 0)):
            steps, values = on_common_steps([_training_curve(run, task, task.start, task.end) for run in runs])
            if steps.size > 2:
                curve = values.mean(axis=0)
                falls.append((curve[0] - curve[steps.size // 2 :].mean(), curve[0], label, task, steps[0]))
    fall, first, label, task, at = max(
        falls, default=(0.0, 0.0, "", data.first.tasks[0], 0.0), key=lambda each: each[0]
    )
    if fall <= 0 or fall < abs(first) / 2:
        return ""
    counts = [((run.episodes.tasks == task.index) & (run.episodes.steps <= at)).sum() for run in data.arms[label]]
    begin, end = number(float(first)), number(float(first - fall))
    episodes = count_text(round(float(np.mean(counts))), "episode")
    return (
        f"{label} begins task {task.index + 1} at {begin} and falls to {end}: the first point is the mean of about "
        f"{episodes} of each seed, played by the policy with which the task begins, before much is learned in it. "
    )


def plot_evaluation_curves(data: ComparisonData, scores: AgentScores) -> Plot | None:
    """Plot the returns of evaluations, if a task has more evaluations than the one at its end."""
    if not any(run.series("eval/return", task.index)[0].size > 1 for run in data.runs for task in run.tasks):
        return None
    figure = _draw_stream(
        data, scores, lambda run, task, low, high: run.series("eval/return", task.index, low, high), [], dots=True
    )
    settings = data.first.settings
    episodes = f" of {n} episodes" if (n := settings.eval_episodes) else ""
    policy = f"ε = {epsilon:g}" if (epsilon := getattr(settings, "eval_epsilon", None)) else "no exploration"
    caption = (
        f"Mean return{episodes} with {policy}, on separate environments, at each dot; the lines only join the dots. "
        "Each dot is one state of the network and few episodes, so part of the variation is chance. The intervals over "
        "seeds include it but do not separate it. " + seeds_phrase(data.seeds)
    )
    return Plot("evaluation", "Evaluation", caption, figure)


def _draw_stream(data: ComparisonData, scores: AgentScores, curve: CurveInTask, marks: list[str], dots: bool) -> Figure:
    """Return a figure with one row per environment and below them the marks of events, if there are any."""
    run = data.first
    divisor, steps_label, _ = step_unit(run.total_steps)
    rows, extra = len(scores.environments), bool(marks)
    strip = 0.35 + 0.2 * len(_marked(data, marks)) if marks else 0.0
    height = 1.55 if rows > 1 else 3.4
    figure = new_figure(0.75 + rows * height + strip)
    grid = figure.subplots(
        rows + extra, 1, sharex=True, squeeze=False, height_ratios=[height] * rows + [strip] * extra
    )[:, 0]

    for position, axes in enumerate(grid[:rows]):
        tidy(axes, scores.environments[position])
        mark_stream(axes, run, divisor, data.fork_step)
        for task in run.tasks:
            if task.index % rows == position:
                if rows > 1:
                    _shade(axes, task, divisor)
                if 1 < len(run.tasks) <= MOST_NAMED:
                    _name_task(axes, task, divisor)
                _draw_task(axes, data, task, divisor, curve, dots)
        _leave_room(axes)
    grid[rows // 2 if rows > 1 else 0].set_ylabel("episode return", fontsize=9.5, color=INK)
    if marks:
        _draw_marks(grid[-1], data, divisor, marks)
        mark_stream(grid[-1], run, divisor, data.fork_step)
    grid[-1].set_xlabel(steps_label, fontsize=9.5, color=INK)
    legend(figure, list(data.arms), fork=bool(data.fork_step))
    return figure


def _leave_room(axes: Axes) -> None:
    """Leave room for the names of tasks below the curves, without ticks at returns below 0 that none has."""
    axes.margins(y=0.12)
    if axes.dataLim.y0 >= 0 and axes.has_data():
        top = axes.get_ylim()[1]
        axes.set_ylim(-0.12 * top, top)
        axes.set_yticks([tick for tick in axes.get_yticks() if 0 <= tick <= top])
        axes.set_ylim(-0.12 * top, top)


def _draw_task(axes: Axes, data: ComparisonData, task: Segment, divisor: float, curve: CurveInTask, dots: bool) -> None:
    def within_task(run: RunData, low: float, high: float) -> tuple[Array, Array]:
        start, end = max(low, task.start), min(high, task.end)
        return curve(run, task, start, end) if start < end else (np.empty(0), np.empty(0))

    draw_curves(axes, data, within_task, divisor, dots)


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


def _shade(axes: Axes, task: Segment, divisor: float) -> None:
    start, end = task.start / divisor, task.end / divisor
    axes.add_patch(
        Rectangle((start, 0), end - start, 1, transform=axes.get_xaxis_transform(), color=SHADE, zorder=-1, lw=0)
    )


def _name_task(axes: Axes, task: Segment, divisor: float) -> None:
    axes.annotate(
        f"task {task.index + 1}",
        (task.end / divisor, 0),
        xycoords=axes.get_xaxis_transform(),
        xytext=(-5, 5),
        textcoords="offset points",
        ha="right",
        fontsize=8.5,
        color=FAINT,
    )


def _kinds_in(runs: Sequence[RunData]) -> set[str]:
    return {str(event.get("event")) for run in runs for event in run.events}


def _marked(data: ComparisonData, kinds: list[str]) -> list[str]:
    """Return the arms that have such events."""
    return [label for label, runs in data.arms.items() if not _kinds_in(runs).isdisjoint(kinds)]


def _draw_marks(axes: Axes, data: ComparisonData, divisor: float, kinds: list[str]) -> None:
    """Mark interventions and explosions of physics, in one thin row per arm."""
    styles, labels = arm_styles(list(data.arms)), _marked(data, kinds)
    for row, label in enumerate(labels):
        for kind in kinds:
            _, marker, size = MARKS[kind]
            steps = {event["step"] / divisor for run in data.arms[label] for event in run.of_kind(kind)}
            look = {"color": styles[label]["color"], "s": size, "linewidths": 1.6, "clip_on": False}
            axes.scatter(list(steps), [row] * len(steps), marker=marker, zorder=3, **look)
    tidy(axes, "   ".join(MARKS[kind][0] for kind in kinds), grid="x")
    axes.title.set_fontsize(9)
    axes.grid(False)
    axes.set_yticks(range(len(labels)), labels, fontsize=8)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def plot_by_task(data: ComparisonData, scores: AgentScores) -> Plot | None:
    """Plot the final returns of the tasks of each environment, as small multiples."""
    if scores.cycles < 2 or not any(np.isfinite(arm.finals).any() for arm in scores.arms.values()):
        return None
    count = len(scores.environments)
    figure, panels = new_panels(count, 0.4, 2.5, columns=COLUMNS)
    styles, visits = arm_styles(list(data.arms)), np.arange(float(scores.cycles))
    for position, axes in enumerate(panels):
        tidy(axes, short_name(scores.environments[position]))
        for label, arm in scores.arms.items():
            values = arm.finals[:, :, position]
            whole = np.isfinite(values).all(axis=0)
            draw_band(axes, visits[whole], values[:, whole], styles[label], True)
        axes.set_xticks(visits, [str(1 + position + count * visit) for visit in range(scores.cycles)])
        axes.set_xlabel("task", fontsize=9)
        if position % COLUMNS == 0:
            axes.set_ylabel("mean final return", fontsize=9)
    legend(figure, list(scores.arms))
    caption = (
        "Mean training return in the last 15 % of each task. A fall from one task of an environment to its next is a "
        "loss of plasticity, forgetting, or both: this figure cannot tell them apart. " + seeds_phrase(data.seeds)
    )
    return Plot("by_task", "From task to task", caption, figure)
