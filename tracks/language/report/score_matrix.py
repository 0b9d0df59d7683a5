"""Figures of sequences of tasks: the score of every task after each."""

from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import MaxNLocator

from supple.experiments.history.data import ComparisonData, Series
from supple.metrics.arrays import Array
from supple.reports.figures.heat_maps import IN_CELLS, HeatMap, draw_heat_maps, seeds_text, task_labels
from supple.reports.figures.style import FORK, INK, Pieces, Plot, arm_styles, draw_panels, legend, seeds_phrase
from supple.reports.tables.statistics import mean

from .continual import Learned


def plot_matrices(study: ComparisonData, learned: Sequence[Learned]) -> Plot | None:
    """Plot one heat map per method: scores of all tasks (columns) after each was learned (rows), mean over seeds."""
    if not learned:
        return None
    panels = []
    for scores in learned:
        table = np.concatenate([mean(scores.before, axis=0)[None], mean(scores.scores, axis=0)])
        names = task_labels(scores.tasks)
        panels.append(HeatMap(scores.cell.label, names, ["before", *names], table, bold=1))
    caption = (
        f"Score of each task (across, in %) after each task was learned (down; {seeds_text(study.seeds)}). Bold: the "
        "task just learned; to its right what is not learned yet, to its left what is kept."
    )
    return Plot("score_matrix", "Scores after each task", caption, draw_heat_maps(panels, IN_CELLS))


def draw_along_stream(learned: Sequence[Learned]) -> Plot | None:
    """Plot the mean score of the tasks learned so far, and that of each task, with one line per method."""
    if not learned:
        return None
    labels = [scores.cell.label for scores in learned]
    styles = arm_styles(labels)
    tasks = list(dict.fromkeys(task for scores in learned for task in scores.tasks))
    panels: dict[str, Pieces] = {title: [] for title in ("mean of those learned", *tasks)}
    for scores in learned:
        style, R = styles[scores.cell.label], np.concatenate([scores.before[:, None], scores.scores], axis=1)
        so_far = [scores.scores[:, i, : i + 1].mean(axis=1) for i in range(len(scores.tasks))]
        panels["mean of those learned"].append((style, _series(np.stack(so_far, axis=1), 1)))
        for task, name in enumerate(scores.tasks):
            panels[name].append((style, _series(R[:, :, task], 0)))
    figure, grid = draw_panels(panels, "tasks learned", 2.2, dots=True, columns=4, sharex=True, sharey=True)
    one_order = all(scores.tasks == learned[0].tasks for scores in learned)
    for i, axes in enumerate(grid):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if one_order and i:
            axes.axvline(i, **FORK)
    figure.supylabel("score (%)", fontsize=9.5, color=INK)
    legend(figure, labels)
    seeds = max(len(scores.cell.runs) for scores in learned)
    caption = "Test scores after each task; 0 is the model before any. Dashed: when the task was learned, if all "
    caption += "methods learned the tasks in one order. " + seeds_phrase(seeds, len(learned))
    return Plot("scores_by_task", "Scores along the stream", caption, figure)


def _series(scores: Array, first: int) -> list[Series]:
    """Return the numbers of tasks learned, from `first` on, and the known scores in %, for each seed."""
    learned = np.arange(first, first + scores.shape[1], dtype=np.float64)
    return [(learned[known], 100 * of_seed[known]) for of_seed in scores if (known := np.isfinite(of_seed)).any()]
