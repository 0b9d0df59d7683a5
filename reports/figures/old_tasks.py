"""The figure of old tasks: the performance on each task after each task."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from supple.reports.tables.cells import MISSING, PERCENT, Form
from supple.reports.tables.differences import baseline_name
from supple.reports.tables.old_tasks import OldTasks
from supple.reports.tables.statistics import mean

from .style import INK, WIDTH, Plot, new_panels, shorten, tidy

Array = NDArray[np.float64]
MOST_NUMBERS = 12  # tasks: with more, the numbers in the cells could not be read
LETTER = 0.105  # inches of a letter of a title
IN_CELLS = replace(PERCENT, decimals=0)  # of accuracies
SHADES = ListedColormap(colormaps["Blues"](np.linspace(0.1, 1.0, 256)))  # 0 is not white, as what is missing is


@dataclass(frozen=True, eq=False)
class HeatMap:
    """A heat map of one arm: `values`, (times, tasks), are means over seeds. The last rows are after each task."""

    title: str
    tasks: Sequence[str]
    values: Array


def plot_old_tasks(old: OldTasks) -> Plot | None:
    """Plot the performance of each arm on each task (across) after each task (down), mean over seeds, if known."""
    if not old.known:
        return None
    panels = [HeatMap(baseline_name(arm), own.tasks, mean(own.scaled, axis=0)) for arm, own in old.arms.items()]
    seeds = max(len(own.seeds) for own in old.arms.values())
    unit = "in %, " if old.scale.percent else ""
    caption = (
        f"Performance on each task (across) after each task (down; {unit}{seeds_text(seeds)}). On the diagonal is the "
        "task just trained, in bold where there are numbers; to its left are old tasks. White: not evaluated. Colours "
        f"end at 0 and {100 if old.scale.percent else 1}. {old.scale.words}"
    )
    figure = draw_matrices(panels, IN_CELLS if old.scale.percent else old.scale.form)
    return Plot("old_tasks", "Old tasks, after each task", caption, figure).of(old.variant)


def seeds_text(seeds: int) -> str:
    """Return over how many seeds the numbers of a heat map are means, in words."""
    return f"mean over {seeds} seeds" if seeds > 1 else "1 seed"


def draw_matrices(panels: Sequence[HeatMap], form: Form) -> Figure:
    """Return a figure with one heat map per panel, with numbers in the cells if there are few tasks.

    Args:
        panels: The panels. A row more than tasks is before the first.
        form: The form of the numbers.
    """
    most, times = max(len(panel.tasks) for panel in panels), max(len(panel.values) for panel in panels)
    few, labels = most <= MOST_NUMBERS, [_labels(panel.tasks) for panel in panels]
    room = 0.09 * max(len(label) for of_panel in labels for label in of_panel) if few else 0.4
    width = 0.5 + room + (0.5 * most if few else 2.6)
    rows = -(-len(panels) // max(1, min(len(panels), int(WIDTH // width))))
    columns = -(-len(panels) // rows)  # so that the last row is nearly full
    height = 0.7 + 0.6 * room + (0.34 * times if few else 2.5)
    figure, grid = new_panels(len(panels), 0.0, height, min(WIDTH, 0.3 + columns * width + (not few)), columns)
    letters = int(figure.get_figwidth() / columns / LETTER)
    for axes, panel, names in zip(grid, panels, labels, strict=True):
        ends = (0.5, len(names) + 0.5, len(panel.values) + 0.5, 0.5)
        image = axes.imshow(form.scale * panel.values, cmap=SHADES, vmin=0, vmax=form.scale, aspect="auto",
                            interpolation="nearest", extent=ends)  # fmt: skip
        tidy(axes, shorten(panel.title, letters))
        axes.grid(visible=False)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_xlabel("on task", fontsize=9, color=INK)
        axes.set_ylabel("after task", fontsize=9, color=INK)
        if few:
            before = len(panel.values) - len(names)
            turn: dict[str, Any] = {"rotation": 30, "ha": "right"} if room > 0.4 else {}
            axes.set_xticks(range(1, len(names) + 1), names, fontsize=8, **turn)
            axes.set_yticks(range(1, len(panel.values) + 1), ["before"] * before + names, fontsize=8)
            for (row, task), value in np.ndenumerate(panel.values):
                text = form.text(value).replace(MISSING, MISSING * before)  # of a model before, all tasks are tested
                weight, color = "bold" if row == task + before else "normal", "white" if value > 0.6 else INK
                axes.text(
                    task + 1, row + 1, text, ha="center", va="center", fontsize=8.5, fontweight=weight, color=color
                )
        else:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    if not few:
        figure.colorbar(image, ax=grid, shrink=0.8)
    return figure


def _labels(tasks: Sequence[str]) -> list[str]:
    """Return the labels of tasks: their names, with numbers if some are equal, and only numbers if all are."""
    different = len(set(tasks))
    if different == len(tasks):
        return [shorten(name, 20) for name in tasks]
    return [f"{i}: {shorten(name, 16)}" if different > 1 else str(i) for i, name in enumerate(tasks, 1)]
