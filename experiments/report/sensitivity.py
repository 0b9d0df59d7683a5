"""Figures of a score against a number that varies: a setting, or one in the text of an arm's hooks."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from ...metrics import t_interval
from ..fork import FRESH, NONE
from .arms import point_of, scores_of
from .differences import Measure
from .style import INK, Plot, arm_styles, legend, new_figure, tidy

Array = NDArray[np.float64]
NUMBER = re.compile(r"(\w+)=(-?[\d.]+(?:[eE][-+]?\d+)?)(?=[,)])")  # in a hook's text
BLANK = "…"
DECADES = 30  # from here on an axis is logarithmic: the largest value over the smallest
FEW = 4  # values that a cloud needs, where everything else varies too
MOST_PANELS = 9


@dataclass(eq=False)
class Panel:
    """Hold the lines of one panel: label → number → scores of its seeds. place, rest: the environment and the other
    settings, in words. level: what arms without the number have.
    cloud: other settings vary too, so that points are not joined."""

    place: str
    rest: str
    lines: dict[str, dict[float, Array]] = field(default_factory=lambda: defaultdict(dict))
    level: dict[str, Array] = field(default_factory=dict)
    cloud: bool = False


def sensitivity(measures: Sequence[Measure]) -> list[Plot]:
    """Return a figure for each number that varies. measures: of one family, all variants and environments."""
    found: dict[str, dict[tuple[str, str], Panel]] = defaultdict(dict)
    for measure in measures:
        for arm in measure.arms:
            for name, value, label, rest in _places(measure, arm):
                panel = found[name].setdefault((measure.place, rest), Panel(measure.place, rest))
                panel.lines[label][value] = scores_of(measure, arm)
                if BLANK in label:
                    panel.level |= {each: scores_of(measure, each) for each in (NONE, FRESH) if each in measure.arms}
    plots = []
    for name, panels in found.items():
        curves = _joined(list(panels.values()))
        if curves:
            plots.append(_figure(name, curves, measures[0]))
    return plots


def _places(measure: Measure, arm: str) -> list[tuple[str, float, str, str]]:
    """Return where an arm stands: (name of a number, its value, the line, the panel) for each number that it has."""
    text, variant = point_of(measure, arm)
    places = []
    for match in NUMBER.finditer(text):
        blank = text[: match.start(2)] + BLANK + text[match.end(2) :]
        places.append((match[1], float(match[2]), blank, _words(variant)))
    for name, value in variant.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            rest = {key: other for key, other in variant.items() if key != name}
            places.append((name, float(value), text, _words(rest)))
    return places


def _words(variant: Any) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in variant.items())


def _joined(panels: Sequence[Panel]) -> list[Panel]:
    """Return the panels that have a line of two points or more. Where none has, but the number takes many values, one
    panel with all points: they were drawn at random, and no two share their other settings."""
    curves = [panel for panel in panels if any(len(line) > 1 for line in panel.lines.values())]
    values = {value for panel in panels for line in panel.lines.values() for value in line}
    if curves or len(values) < FEW:
        return curves
    cloud = Panel("", "", cloud=True)
    for panel in panels:
        for label, line in panel.lines.items():
            cloud.lines[label] |= line
    return [cloud]


def _figure(name: str, panels: Sequence[Panel], measure: Measure) -> Plot:
    labels = list(dict.fromkeys(label for panel in panels for label in (*panel.level, *panel.lines)))
    styles = arm_styles(labels)
    shown = panels[:MOST_PANELS]
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    figure = new_figure(0.5 + 2.8 * rows, width=min(11.0, 3.0 + 4.0 * columns))
    one = len({panel.place for panel in shown}) == 1  # what is of one environment has one scale
    grid = list(figure.subplots(rows, columns, squeeze=False, sharey=one).ravel())
    values = [value for panel in shown for line in panel.lines.values() for value in line]
    for axes, panel in zip(grid, shown, strict=False):
        tidy(axes, ", ".join(filter(None, [panel.place, panel.rest])))
        _scale(axes, values)
        for label, scores in panel.level.items():
            if scores.size:
                axes.axhline(scores.mean(), linewidth=1.4, zorder=1, alpha=0.8, **styles[label])
        for i, (label, line) in enumerate(panel.lines.items()):
            _draw(axes, line, styles[label], i, panel.cloud)
        axes.set_xlabel(name.replace("_", " "), fontsize=9.5, color=INK)
    for axes in grid[len(shown) :]:
        axes.set_axis_off()
    family = (measure.family or measure.name) + (" (%)" if measure.percent else "")
    grid[0].set_ylabel(family, fontsize=9.5, color=INK)
    legend(figure, labels)
    joined = "; other settings vary too, so points are not joined" if panels[0].cloud else ""
    left = (
        f" {len(panels) - len(shown)} more combinations of settings are not shown." if len(panels) > len(shown) else ""
    )
    level = " Level lines: arms that do not have the number." if any(panel.level for panel in shown) else ""
    words = name.replace("_", " ")
    caption = (
        f"Mean {family} over seeds against {words}{joined}; bars: 95 % Student-t interval, dots: seeds.{level}{left} "
        "The value that looks best here was chosen with these very seeds: report it on others."
    )
    return Plot(f"sensitivity_{re.sub(r'[^a-z0-9]+', '_', name.lower())}", f"Sensitivity to {words}", caption, figure)


def _draw(axes: Axes, line: dict[float, Array], style: dict[str, Any], place: int, cloud: bool) -> None:
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
        if scores.size > 2 and (ends := t_interval(scores)):  # of two seeds it would hide everything else
            axes.vlines(value, *ends, color=color, linewidth=1.2, alpha=0.6)


def _scale(axes: Axes, values: Sequence[float]) -> None:
    """Make an axis logarithmic where its values are spread over decades; a zero among them keeps its place."""
    sizes = [abs(value) for value in values if value]
    if not sizes or max(sizes) < DECADES * min(sizes):
        return
    if min(values) > 0:
        axes.set_xscale("log")
    else:
        axes.set_xscale("symlog", linthresh=min(sizes))
