"""Figures of compared numbers: one row per arm, with a dot for each seed. They draw what the cells of tables hold."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from supple.reports.tables.cells import Number
from supple.reports.tables.differences import Measure, name_baselines

from .style import FEW_SEEDS, FORK, INK, WIDTH, Plot, arm_styles, new_panels, seeds_phrase, shorten, slug, tidy

Rows = Mapping[str, Number]  # arm → its mean, with its interval and the numbers of its seeds
MOST_PANELS, MOST_ROWS = 9, 48


def plot_measures(measures: Sequence[Measure], folded: bool = False) -> Plot | None:
    """Return the figure of a family of measures, with one panel per environment and variant.

    Return None if there is nothing to compare: one arm, no numbers, or more arms or panels than can be read.
    """
    titles = {", ".join(filter(None, [m.place, m.variant])): m for m in measures}
    panels = {title: rows for title, measure in titles.items() if (rows := _rows_of(measure))}
    arms = list(dict.fromkeys(arm for measure in measures for arm in measure.arms))
    if not panels or len(panels) > MOST_PANELS or not 1 < len(arms) <= MOST_ROWS:
        return None
    first = measures[0]
    columns = 2 if len(panels) == 4 else min(3, len(panels))
    height = 0.75 + 0.3 * max(map(len, panels.values()))
    shared = len({tuple(rows) for rows in panels.values()}) == 1  # the names of arms then stand at the left alone
    figure, grid = new_panels(len(panels), 0.2, height, 8.0 if columns == 1 else WIDTH, columns, sharey=shared)
    styles = arm_styles(arms)
    for axes, (title, rows) in zip(grid, panels.items(), strict=True):
        draw_rows(axes, rows, styles, title if len(panels) > 1 else "")
        axes.set_xlabel(first.axis, fontsize=9.5, color=INK)
        if (baseline := titles[title].baselines[0]) in rows:
            axes.axvline(first.scale * rows[baseline].mean, zorder=0, **FORK)
    seeds = max(len(cell.by_seed) for rows in panels.values() for cell in rows.values())
    better = "Lower is better. " * first.lower_is_better
    caption = f"{seeds_phrase(seeds)} {better}Dashed line: the mean of {name_baselines(measures)}."
    title = first.axis[0].upper() + first.axis[1:]
    return Plot(f"measure_{slug(first.group)}", title, caption, figure, folded)


def _rows_of(measure: Measure) -> Rows:
    spreads = {arm: measure.spread(arm) for arm in measure.arms}
    return {arm: Number.of(spread, measure.form) for arm, spread in spreads.items() if spread.known.size}


def draw_rows(axes: Axes, rows: Rows, styles: Mapping[str, Mapping[str, Any]], title: str = "") -> None:
    """Draw one row per arm into a panel: its mean as a mark with its number, its interval, and a dot for each seed.

    A Student-t interval of few seeds is left out. `rows` are the cells that tables have.
    """
    tidy(axes, title, grid="x")
    for place, (arm, cell) in enumerate(rows.items()):
        color, scale = styles[arm]["color"], cell.form.scale
        seeds = np.array([value for value in cell.by_seed.values() if np.isfinite(value)]) * scale
        middle, right = scale * cell.mean, max([scale * cell.mean, *seeds])
        if cell.low is not None and cell.high is not None and not 0 < seeds.size <= FEW_SEEDS:
            ends = scale * cell.low, scale * cell.high
            axes.plot(ends, [place, place], color=color, linewidth=5, alpha=0.3, solid_capstyle="butt")
            right = max(right, ends[1])
        if seeds.size > 1:
            aside = place + np.linspace(-0.16, 0.16, seeds.size)  # so that equal numbers can be seen
            axes.scatter(seeds, aside, s=13, color=color, alpha=0.55, linewidths=0, zorder=2)
        axes.scatter(middle, place, s=58, color=color, zorder=3, edgecolor="white")
        axes.annotate(str(cell), (right, place), (8, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(range(len(rows)), list(map(shorten, rows)), fontsize=9.5)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.12)
    axes.locator_params(axis="x", nbins=5)
