"""Figures of a score against a varied number: a setting, or a number in the text of an arm's hooks."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from ...engine.forks import FRESH, NONE
from ...metrics import t_interval
from ..tables.arms import point_of, scores_of
from ..tables.differences import Measure
from ..tables.table import variant_text
from .style import INK, Plot, arm_styles, legend, new_panels, slug, tidy

Array = NDArray[np.float64]
NUMBER = re.compile(r"(\w+)=(-?[\d.]+(?:[eE][-+]?\d+)?)(?=[,)])")  # in a hook's text
BLANK = "…"
DECADES = 30  # ratio of the largest to the smallest value from which an axis is logarithmic
FEW = 4  # the smallest number of values for a cloud, in which all other settings vary too
MOST_PANELS = 9


@dataclass(eq=False)
class Panel:
    """A panel of a sensitivity figure: scores against one varied number.

    Attributes:
        place: The environment.
        rest: The other varied settings, as a text.
        lines: The scores of each line: label → number → scores of the seeds, of shape (seeds,).
        level: The scores of arms that do not have the number. They are drawn as horizontal lines.
        cloud: Whether other settings vary too. The points are then not joined.
    """

    place: str
    rest: str
    lines: dict[str, dict[float, Array]] = field(default_factory=lambda: defaultdict(dict))
    level: dict[str, Array] = field(default_factory=dict)
    cloud: bool = False

    @property
    def values(self) -> list[float]:
        """The varied number at all points."""
        return [value for line in self.lines.values() for value in line]


def sensitivity(measures: Sequence[Measure]) -> list[Plot]:
    """Return a figure for each varied number, for measures of one family in all variants and environments."""
    panels: dict[str, dict[tuple[str, str], Panel]] = defaultdict(dict)
    for measure in measures:
        for arm in measure.arms:
            for name, value, label, rest in _find_places(measure, arm):
                panel = panels[name].setdefault((measure.place, rest), Panel(measure.place, rest))
                panel.lines[label][value] = scores_of(measure, arm)
                if BLANK in label:
                    panel.level |= {
                        plain: scores_of(measure, plain) for plain in (NONE, FRESH) if plain in measure.arms
                    }
    shown = {name: _select_panels(list(of_name.values())) for name, of_name in panels.items()}
    return [_plot_panels(name, of_name, measures[0]) for name, of_name in shown.items() if of_name]


def _find_places(measure: Measure, arm: str) -> list[tuple[str, float, str, str]]:
    """Return the places of an arm in figures: (name of a number, value, line, panel) for each of its numbers."""
    text, variant = point_of(measure, arm)
    places = []
    for match in NUMBER.finditer(text):
        blank = text[: match.start(2)] + BLANK + text[match.end(2) :]
        places.append((match[1], float(match[2]), blank, variant_text(variant)))
    for name, value in variant.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            rest = {key: other for key, other in variant.items() if key != name}
            places.append((name, float(value), text, variant_text(rest)))
    return places


def _select_panels(panels: Sequence[Panel]) -> list[Panel]:
    """Return the panels that have a line with at least two points.

    If there are none but the number has many values, return one panel with all points: they were drawn at random, so
    that no two of them have the same other settings.
    """
    curves = [panel for panel in panels if any(len(line) > 1 for line in panel.lines.values())]
    values = set(chain.from_iterable(panel.values for panel in panels))
    if curves or len(values) < FEW:
        return curves
    cloud = Panel("", "", cloud=True)
    for panel in panels:
        for label, line in panel.lines.items():
            cloud.lines[label] |= line
    return [cloud]


def _plot_panels(name: str, panels: Sequence[Panel], measure: Measure) -> Plot:
    labels = list(dict.fromkeys(label for panel in panels for label in (*panel.level, *panel.lines)))
    styles = arm_styles(labels)
    shown = panels[:MOST_PANELS]
    one_environment = len({panel.place for panel in shown}) == 1  # its panels share a scale
    width = min(11.0, 3.0 + 4.0 * min(3, len(shown)))
    figure, grid = new_panels(len(shown), 0.5, 2.8, width, sharey=one_environment)
    values = list(chain.from_iterable(panel.values for panel in shown))
    for axes, panel in zip(grid, shown, strict=True):
        tidy(axes, ", ".join(filter(None, [panel.place, panel.rest])))
        _scale_axis(axes, values)
        for label, scores in panel.level.items():
            if scores.size:
                axes.axhline(scores.mean(), linewidth=1.4, zorder=1, alpha=0.8, **styles[label])
        for i, (label, line) in enumerate(panel.lines.items()):
            _draw_line(axes, line, styles[label], i, panel.cloud)
        axes.set_xlabel(name.replace("_", " "), fontsize=9.5, color=INK)
    family = measure.group + measure.unit
    grid[0].set_ylabel(family, fontsize=9.5, color=INK)
    legend(figure, labels)
    joined = " (other settings vary too, so points are not joined)" if panels[0].cloud else ""
    hidden = len(panels) - len(shown)
    more = f" {hidden} more combinations of settings are not shown." if hidden else ""
    level = " Horizontal lines: arms without this number." if any(panel.level for panel in shown) else ""
    words = name.replace("_", " ")
    caption = (
        f"Mean {family} over seeds against {words}{joined}. Bars: 95 % Student-t interval. Dots: seeds.{level}{more} "
        "If you choose the best value from this figure, report its result on other seeds."
    )
    return Plot(f"sensitivity_{slug(name)}", f"Sensitivity to {words}", caption, figure)


def _draw_line(axes: Axes, line: dict[float, Array], style: dict[str, Any], place: int, cloud: bool) -> None:
    at = sorted(value for value, scores in line.items() if scores.size)
    if not at:
        return
    color = style["color"]
    means = [float(line[value].mean()) for value in at]
    look = {"linestyle": "none"} if cloud else {}
    axes.plot(at, means, marker="o", markersize=4.5, linewidth=1.6, zorder=3, **{**style, **look})
    for value in at:
        scores = line[value]
        axes.scatter(np.full(scores.size, value), scores, s=7, color=color, alpha=0.35, linewidths=0, zorder=2)
        if scores.size > 2 and (ends := t_interval(scores)):  # with two seeds it would hide everything else
            axes.vlines(value, *ends, color=color, linewidth=1.2, alpha=0.6)


def _scale_axis(axes: Axes, values: Sequence[float]) -> None:
    """Make an axis logarithmic if its values span decades, and symmetric-logarithmic if they include 0."""
    sizes = [abs(value) for value in values if value]
    if not sizes or max(sizes) < DECADES * min(sizes):
        return
    if min(values) > 0:
        axes.set_xscale("log")
    else:
        axes.set_xscale("symlog", linthresh=min(sizes))
