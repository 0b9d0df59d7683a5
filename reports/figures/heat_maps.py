"""Heat maps with one panel per arm, such as the performance on each task after each task."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from supple.metrics.arrays import Array
from supple.reports.tables.cells import MISSING, PERCENT, Form, number
from supple.reports.tables.differences import baseline_name
from supple.reports.tables.old_tasks import OldTasks
from supple.reports.tables.statistics import mean

from .style import INK, WIDTH, Plot, new_panels, shorten, tidy

MOST_NUMBERS = 12  # columns: with more, the numbers in the cells could not be read
LETTER = 0.105  # inches of a letter of a title
MOST_LETTERS = 50  # that widen a panel for its title
IN_CELLS = replace(PERCENT, decimals=0)  # of accuracies
SHADES = ListedColormap(colormaps["Blues"](np.linspace(0.1, 1.0, 256)))  # 0 is not white, as what is missing is


@dataclass(frozen=True, eq=False)
class HeatMap:
    """A panel: `values`, (rows, columns), are means over seeds, with the names of both; NaN was not measured.

    Cells are coloured by `shades`, or by the values if it is None. Column i is bold in row `bold` + i.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[str]
    values: Array
    shades: Array | None = None
    bold: int | None = None


def plot_old_tasks(old: OldTasks) -> Plot | None:
    """Plot the performance of each arm on each task (across) after each task (down), mean over seeds, if known."""
    if not old.known:
        return None
    means = {arm: mean(own.scaled, axis=0) for arm, own in old.arms.items()}
    natural = old.scale.random is None and not old.scale.percent
    every = [*means.values()]
    low, high = (float(np.nanmin(every)), float(np.nanmax(every))) if natural else (0.0, 1.0)
    panels = []
    for arm, own in old.arms.items():
        names, shades = task_labels(own.tasks), (means[arm] - low) / ((high - low) or 1.0)
        panels.append(HeatMap(baseline_name(arm), names, names, means[arm], shades, bold=0))
    seeds = max(len(own.seeds) for own in old.arms.values())
    unit, form = "in %, " if old.scale.percent else "", IN_CELLS if old.scale.percent else old.scale.form
    caption = (
        f"Performance on each task (across) after each task (down; {unit}{seeds_text(seeds)}). On the diagonal is the "
        "task just trained, in bold where there are numbers; to its left are old tasks. White: not evaluated. Colours "
        f"end at {number(form.scale * low)} and {number(form.scale * high)}. {old.scale.words}"
    )
    figure = draw_heat_maps(panels, form)
    return Plot("old_tasks", "Old tasks, after each task", caption, figure).of(old.variant)


def seeds_text(seeds: int) -> str:
    """Return over how many seeds the numbers of a heat map are means, in words."""
    return f"mean over {seeds} seeds" if seeds > 1 else "1 seed"


def draw_heat_maps(
    panels: Sequence[HeatMap], form: Form, across: str = "on task", down: str = "after task",
    colours: Any = SHADES, span: tuple[float, float] = (0.0, 1.0),
) -> Figure:  # fmt: skip
    """Return a figure with one heat map per panel, with numbers in the cells if there are few columns."""
    most, times = max(len(panel.columns) for panel in panels), max(len(panel.rows) for panel in panels)
    few = most <= MOST_NUMBERS
    room, below = 0.4, 0.4  # for the names of rows and columns
    if few:
        room = 0.09 * max(len(name) for panel in panels for name in panel.rows)
        below = 0.09 * max(len(name) for panel in panels for name in panel.columns)
    titles = LETTER * min(MOST_LETTERS, max(len(panel.title) for panel in panels))  # long ones are cut
    width = max(0.5 + room + (0.5 * most if few else 2.6), titles)
    count = -(-len(panels) // max(1, min(len(panels), int(WIDTH // width))))
    columns = -(-len(panels) // count)  # so that the last row is nearly full
    height = 0.7 + 0.6 * below + (0.34 * times if few else 2.5)
    figure, grid = new_panels(len(panels), 0.0, height, min(WIDTH, 0.3 + columns * width + (not few)), columns)
    letters = int(figure.get_figwidth() / columns / LETTER)
    turn: dict[str, Any] = {"rotation": 30, "ha": "right"} if below > 0.4 else {}
    for axes, panel in zip(grid, panels, strict=True):
        ends = (0.5, len(panel.columns) + 0.5, len(panel.rows) + 0.5, 0.5)
        shades = panel.values if panel.shades is None else panel.shades
        image = axes.imshow(form.scale * shades, cmap=colours, vmin=form.scale * span[0], vmax=form.scale * span[1],
                            aspect="auto", interpolation="nearest", extent=ends)  # fmt: skip
        tidy(axes, shorten(panel.title, letters))
        axes.grid(visible=False)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_xlabel(across, fontsize=9, color=INK)
        axes.set_ylabel(down, fontsize=9, color=INK)
        if not few:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))
            continue
        axes.set_xticks(range(1, len(panel.columns) + 1), panel.columns, fontsize=8, **turn)
        axes.set_yticks(range(1, len(panel.rows) + 1), panel.rows, fontsize=8)
        for (row, column), value in np.ndenumerate(panel.values):
            bold = panel.bold is not None and row == column + panel.bold
            axes.text(
                column + 1, row + 1, form.text(value).replace(MISSING, ""), ha="center", va="center", fontsize=8.5,
                fontweight="bold" if bold else "normal", color="white" if abs(shades[row, column]) > 0.6 else INK,
            )  # fmt: skip
    if not few:
        figure.colorbar(image, ax=grid, shrink=0.8)
    return figure


def task_labels(tasks: Sequence[str]) -> list[str]:
    """Return the labels of tasks: their names, with numbers if some are equal, and only numbers if all are."""
    different = len(set(tasks))
    if different == len(tasks):
        return [shorten(name, 20) for name in tasks]
    return [f"{i}: {shorten(name, 16)}" if different > 1 else str(i) for i, name in enumerate(tasks, 1)]
