"""Figures of compared numbers: one row per arm, with a dot for each seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from ..tables.arms import scores_of
from ..tables.differences import Measure, baseline_name
from ..tables.table import number
from .style import FEW_SEEDS, FORK, INK, Plot, arm_styles, mean_and_interval, new_panels, shorten, slug, tidy

Array = NDArray[np.float64]
MOST_PANELS, MOST_ROWS = 9, 48
MOST_SAID = 8  # arms in the words of a figure


@dataclass(frozen=True, eq=False)
class Row:
    """One row: the mark, the ends of its interval (or none), and dots, of shape (seeds,)."""

    middle: float
    ends: tuple[float, float] | None = None
    dots: Array = field(default_factory=lambda: np.empty(0))


def plot_measures(measures: Sequence[Measure], about: str = "", folded: bool = False) -> Plot | None:
    """Return the figure of a family of measures, with one panel per environment and variant.

    Return None if there is nothing to compare: one arm, no numbers, or more arms or panels than can be read.

    Args:
        measures: The measures of one family.
        about: A sentence for the caption.
        folded: As in `Plot`.
    """
    panels = {_panel_title(measure): _rows_of(measure) for measure in measures}
    panels = {title: rows for title, rows in panels.items() if rows}
    arms = list(dict.fromkeys(arm for measure in measures for arm in measure.arms))
    if not panels or len(panels) > MOST_PANELS or not 1 < len(arms) <= MOST_ROWS:
        return None
    first = measures[0]
    columns = 1 if len(panels) == 1 else min(3, len(panels))
    height = 0.75 + 0.3 * max(map(len, panels.values()))
    width = 8.0 if columns == 1 else 11.0
    figure, grid = new_panels(len(panels), 0.2, height, width, columns)
    styles = arm_styles(arms)
    for axes, (title, rows) in zip(grid, panels.items(), strict=True):
        draw_rows(axes, rows, styles, title if len(panels) > 1 else "")
        axes.set_xlabel(f"{first.group}{first.unit}", fontsize=9.5, color=INK)
        if (baseline := first.baselines[0]) in rows:
            axes.axvline(rows[baseline].middle, zorder=0, **FORK)
    caption = " ".join(filter(None, [
        _order_sentence(panels, first.lower_is_better), about, _marks_sentence(panels), "Dashed line: the mean of "
        f"{baseline_name(first.baselines[0])}.",
    ]))  # fmt: skip
    title = first.group[0].upper() + first.group[1:] + first.unit
    return Plot(f"measure_{slug(first.group)}", title, caption, figure, folded)


def draw_rows(axes: Axes, rows: Mapping[str, Row], styles: Mapping[str, Mapping[str, Any]], title: str = "") -> None:
    """Draw one row per arm into a panel: dots, interval, mark, and the number of the mark."""
    tidy(axes, title, grid="x")
    for place, (arm, row) in enumerate(rows.items()):
        color, right = styles[arm]["color"], max([row.middle, *(row.ends or ()), *row.dots])
        if row.ends:
            axes.plot(row.ends, [place, place], color=color, linewidth=5, alpha=0.3, solid_capstyle="butt")
        axes.scatter(
            row.dots, place + _spread_out(row.dots.size), s=13, color=color, alpha=0.55, linewidths=0, zorder=2
        )
        axes.scatter(row.middle, place, s=58, color=color, zorder=3, edgecolor="white")
        axes.annotate(
            number(row.middle), (right, place), (8, 0), textcoords="offset points", va="center", fontsize=9, color=INK
        )
    axes.set_yticks(range(len(rows)), list(map(shorten, rows)), fontsize=9.5)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.12)
    axes.locator_params(axis="x", nbins=5)


def _spread_out(count: int) -> Array:
    """Return small shifts, so that dots with the same value can be seen."""
    return np.linspace(-0.16, 0.16, count) if count > 1 else np.zeros(count)


def _rows_of(measure: Measure) -> dict[str, Row]:
    rows = {}
    for arm in measure.arms:
        if (scores := scores_of(measure, arm)).size:
            middle, low, high = mean_and_interval(scores[:, None])
            ends = (float(low[0]), float(high[0])) if scores.size > FEW_SEEDS else None
            rows[arm] = Row(float(middle[0]), ends, scores if scores.size > 1 else np.empty(0))
    return rows


def _panel_title(measure: Measure) -> str:
    return ", ".join(filter(None, [measure.place, measure.variant]))


def _order_sentence(panels: Mapping[str, Mapping[str, Row]], lower: bool) -> str:
    """Return what the figure shows: the arms of each panel from the best to the worst, with their means."""
    return " ".join(
        f"{f'{title}, ' if len(panels) > 1 else ''}from best to worst: {_arms(rows, lower)}."
        for title, rows in panels.items()
    )


def _arms(rows: Mapping[str, Row], lower: bool) -> str:
    best = sorted(rows, key=lambda arm: rows[arm].middle, reverse=not lower)
    shown = best if len(best) <= MOST_SAID else [*best[: MOST_SAID // 2], *best[-MOST_SAID // 2 :]]
    words = [f"{baseline_name(arm)} {number(rows[arm].middle)}" for arm in shown]
    if len(best) > MOST_SAID:
        words.insert(MOST_SAID // 2, "…")
    return ", ".join(words)


def _marks_sentence(panels: Mapping[str, Mapping[str, Row]]) -> str:
    rows = [row for of_panel in panels.values() for row in of_panel.values()]
    if all(row.dots.size < 2 for row in rows):
        return "1 seed: no interval, and no evidence beyond these runs."
    bars = "; bars: 95 % Student-t interval" if any(row.ends for row in rows) else ""
    return f"Large dots: means over seeds; small dots: seeds{bars}."
