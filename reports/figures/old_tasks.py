"""The figure of old tasks: the performance on each task after each task."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from ..tables.cells import MISSING, with_minus
from ..tables.differences import baseline_name
from ..tables.old_tasks import OldTasks
from ..tables.statistics import mean
from .style import INK, WIDTH, Plot, new_panels, shorten, tidy

Array = NDArray[np.float64]
MOST_NUMBERS = 12  # tasks: with more, the numbers in the cells could not be read
SHADES = ListedColormap(colormaps["Blues"](np.linspace(0.1, 1.0, 256)))  # 0 is not white, as what is missing is


@dataclass(frozen=True, eq=False)
class Panel:
    """A heat map of one arm: `values`, (times, tasks), are means over seeds. The last rows are after each task."""

    title: str
    tasks: Sequence[str]
    values: Array


def plot_old_tasks(old: OldTasks) -> Plot:
    """Plot the performance of each arm on each task (across) after each task (down), mean over seeds."""
    panels = [Panel(baseline_name(arm), own.tasks, mean(own.scaled, axis=0)) for arm, own in old.arms.items()]
    seeds = max(len(own.seeds) for own in old.arms.values())
    unit = "in %, " if old.percent else ""
    caption = (
        f"Performance on each task (across) after each task (down; {unit}{seeds_text(seeds)}). The diagonal, bold where "
        "there are numbers, is the task just trained; to its left are old tasks. White: not evaluated. Colours end at 0 "
        f"and {100 if old.percent else 1}. {old.scale}"
    )
    return Plot("old_tasks", "Old tasks, after each task", caption, draw_matrices(panels, old.percent)).of(old.variant)


def seeds_text(seeds: int) -> str:
    """Return over how many seeds the numbers of a heat map are means, in words."""
    return f"mean over {seeds} seeds" if seeds > 1 else "1 seed"


def draw_matrices(panels: Sequence[Panel], percent: bool) -> Figure:
    """Return a figure with one heat map per panel, with numbers in the cells if there are few tasks.

    Args:
        panels: The panels. A row more than tasks is before the first.
        percent: Whether to show numbers in %.
    """
    most, rows = max(len(panel.tasks) for panel in panels), max(len(panel.values) for panel in panels)
    few = most <= MOST_NUMBERS
    labels = [_labels(panel.tasks) for panel in panels]
    room = 0.09 * max(len(label) for of_panel in labels for label in of_panel) if few else 0.4
    width = 0.5 + room + (0.5 * most if few else 3.0)
    columns = max(1, min(len(panels), int(WIDTH // width)))
    height = (0.7 + 0.6 * room + 0.34 * rows) if few else 3.4
    figure, grid = new_panels(len(panels), 0.0, height, min(WIDTH, 0.3 + columns * width + (not few)), columns)
    for axes, panel, names in zip(grid, panels, labels, strict=True):
        image = axes.imshow(panel.values, cmap=SHADES, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        tidy(axes, panel.title)
        axes.grid(visible=False)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_xlabel("on task", fontsize=9, color=INK)
        axes.set_ylabel("after task", fontsize=9, color=INK)
        if few:
            before = len(panel.values) - len(names)
            axes.set_xticks(range(len(names)), names, fontsize=8, rotation=30 if room > 0.4 else 0,
                            ha="right" if room > 0.4 else "center")  # fmt: skip
            axes.set_yticks(range(len(panel.values)), ["before"] * before + names, fontsize=8)
            for (row, task), value in np.ndenumerate(panel.values):
                text = f"{100 * value:.0f}" if percent else f"{value:.2f}"
                axes.text(
                    task, row, with_minus(text) if np.isfinite(value) else MISSING if before else "",
                    ha="center", va="center", fontsize=8.5, fontweight="bold" if row == task + before else "normal",
                    color="white" if value > 0.6 else INK,
                )  # fmt: skip
        else:
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(MaxNLocator(integer=True))
                axis.set_major_formatter(lambda place, _: f"{place + 1:.0f}")
    if not few:
        figure.colorbar(image, ax=grid, shrink=0.8, format=lambda value, _: f"{value:.0%}" if percent else f"{value:g}")
    return figure


def _labels(tasks: Sequence[str]) -> list[str]:
    """Return the labels of tasks: their names, with numbers if some are equal, and only numbers if all are."""
    different = len(set(tasks))
    if different == len(tasks):
        return [shorten(name, 20) for name in tasks]
    return [f"{i}: {shorten(name, 16)}" if different > 1 else str(i) for i, name in enumerate(tasks, 1)]
