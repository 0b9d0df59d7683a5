"""Figures of returns: learning curves along the stream, and final returns of each task."""

import numpy as np
from matplotlib.axes import Axes

from supple.experiments.history.data import ComparisonData
from supple.reports.figures.streams import WINDOW, draw_stream, training_curve
from supple.reports.figures.style import Pieces, Plot, arm_styles, draw_panels, legend, seeds_phrase_of, step_unit

from .scores import AgentScores
from .tables import short_name

RETURN = "episode return"  # what the vertical axis shows
COLUMNS = 4  # the most panels in a row
MARKS = {"intervention": "|", "explosion": "x"}  # event → marker


def plot_learning_curves(data: ComparisonData, scores: AgentScores) -> Plot | None:
    """Plot training returns, with one row and one scale per environment and a common axis of steps."""
    if not any(run.episodes.steps.size for run in data.runs):
        return None
    figure = draw_stream(data, scores.environments, training_curve, RETURN)
    for axes in figure.axes:
        _mark_events(axes, data)
    exploded = any(run.of_kind("explosion") for run in data.runs)
    burst = ", without episodes that ended in an explosion of physics (×)" * exploded
    caption = (
        f"Mean training return of the episodes that ended in the preceding {100 * WINDOW:.0f} % of a task: returns of "
        f"the exploring policy, not of an evaluation{burst}. Vertical lines: task switches. Marks at the bottom: "
        f"interventions. {seeds_phrase_of(data)}"
    )
    return Plot("learning_curves", "Learning curves", caption, figure)


def plot_evaluation_curves(data: ComparisonData, scores: AgentScores) -> Plot | None:
    """Plot the returns of evaluations, if a task has more evaluations than the one at its end."""
    if not any(run.series("eval/return", task.index)[0].size > 1 for run in data.runs for task in run.tasks):
        return None
    figure = draw_stream(
        data,
        scores.environments,
        lambda run, task, low, high: run.series("eval/return", task.index, low, high),
        RETURN,
        dots=True,
    )
    settings = data.first.settings
    policy = f"ε = {epsilon:g}" if (epsilon := getattr(settings, "eval_epsilon", None)) else "no exploration"
    caption = (
        f"Mean return of {settings.eval_episodes or 'the'} episodes with {policy}, on separate environments, at each "
        "dot; the lines only join the dots. Each dot is one state of the network and few episodes, so part of the "
        f"variation is chance. {seeds_phrase_of(data)}"
    )
    return Plot("evaluation", "Evaluation", caption, figure)


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
        "loss of plasticity, forgetting, or both: this figure cannot tell them apart. " + seeds_phrase_of(data)
    )
    return Plot("by_task", "From task to task", caption, figure)
