"""Figures of sequences of tasks: the score of every task after each."""

from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from supple.experiments.history.data import ComparisonData
from supple.reports.figures.old_tasks import IN_CELLS, HeatMap, draw_matrices, seeds_text
from supple.reports.figures.style import FORK, INK, Plot, arm_styles, draw_band, legend, new_figure, seeds_phrase, tidy
from supple.reports.tables.statistics import mean

from .continual import Learned

Array = NDArray[np.float64]


def plot_matrices(study: ComparisonData, learned: Sequence[Learned]) -> Plot | None:
    """Plot one heat map per method: scores of all tasks (columns) after each was learned (rows), mean over seeds."""
    if not learned:
        return None
    panels = []
    for scores in learned:
        table = np.concatenate([mean(scores.before, axis=0)[None], mean(scores.scores, axis=0)])
        panels.append(HeatMap(scores.cell.label, scores.tasks, table))
    caption = (
        f"Score of each task (across, in %) after each task was learned (down; {seeds_text(study.seeds)}). Bold: the "
        "task just learned; to its right what is not learned yet, to its left what is kept."
    )
    return Plot("score_matrix", "Scores after each task", caption, draw_matrices(panels, IN_CELLS))


def draw_along_stream(learned: Sequence[Learned]) -> Plot | None:
    """Plot the mean score of the tasks learned so far, and that of each task, with one line per method."""
    if not learned:
        return None
    styles = arm_styles([scores.cell.label for scores in learned])
    tasks = list(dict.fromkeys(task for scores in learned for task in scores.tasks))
    one_order = all(scores.tasks == learned[0].tasks for scores in learned)
    columns = min(4, 1 + len(tasks))
    rows = -(-(1 + len(tasks)) // columns)
    figure = new_figure(0.4 + 2.2 * rows)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    for axes, title in zip(grid, ["mean of those learned", *tasks], strict=False):
        tidy(axes, title)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if one_order and title in learned[0].tasks:
            axes.axvline(1 + learned[0].tasks.index(title), **FORK)
    for scores in learned:
        style = styles[scores.cell.label]
        draw_band(grid[0], *_means_so_far(scores), style, True, 100.0)
        for task, name in enumerate(scores.tasks):
            values = np.concatenate([scores.before[:, None, task], scores.scores[:, :, task]], axis=1)
            draw_band(grid[1 + tasks.index(name)], *_select_known(100 * values, 0), style, True, 100.0)
    for axes in grid[1 + len(tasks) :]:
        axes.set_axis_off()
    for axes in grid[max(0, 1 + len(tasks) - columns) : 1 + len(tasks)]:
        axes.set_xlabel("tasks learned", fontsize=9.5, color=INK)
        axes.tick_params(labelbottom=True)
    figure.supylabel("score (%)", fontsize=9.5, color=INK)
    legend(figure, [scores.cell.label for scores in learned])
    marks = "Dashed: when the task was learned. " if one_order else ""
    seeds = max(len(scores.cell.runs) for scores in learned)
    caption = f"Test scores after each task; 0 is the model before any. {marks}" + seeds_phrase(seeds)
    return Plot("scores_by_task", "Scores along the stream", caption, figure)


def _means_so_far(scores: Learned) -> tuple[Array, Array]:
    """Return the numbers of tasks learned, and the mean scores of these tasks, (seeds, …)."""
    values = np.stack([scores.scores[:, i, : i + 1].mean(axis=1) for i in range(len(scores.tasks))], axis=1)
    return _select_known(100 * values, 1)


def _select_known(values: Array, first: int) -> tuple[Array, Array]:
    """Return positions from `first`, and values (seeds, positions), where every seed has one."""
    complete = np.isfinite(values).all(axis=0)
    return first + np.flatnonzero(complete).astype(np.float64), values[:, complete]
