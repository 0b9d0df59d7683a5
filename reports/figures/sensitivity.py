"""Figures of a score against a varied number: a setting, or a number in the text of an arm's hooks."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.transforms import ScaledTranslation

from supple.engine.forks import FRESH, NONE
from supple.experiments.comparisons.grid import variant_text
from supple.reports.tables.arms import point_of
from supple.reports.tables.differences import Measure
from supple.reports.tables.statistics import Spread

from .style import FEW_SEEDS, INK, Plot, arm_styles, legend, new_panels, slug, tidy

NUMBER = re.compile(r"(\w+)=(-?[\d.]+(?:[eE][-+]?\d+)?)(?=[,)]| \+ |$)")  # in the text of an arm
BLANK = "…"
DECADE = 9.9  # ratio of the largest to the smallest value of an axis
MOST_TICKS = 8  # with as many values, each has its tick on a logarithmic axis
FEW = 4  # the smallest number of values for a cloud, in which all other settings vary too
MOST_PANELS = 9
SHIFT = 3.5  # points between the dots of neighbouring lines


@dataclass(eq=False)
class Panel:
    """A panel: scores against one varied number, in one environment (`place`) and with the other settings in `rest`.

    `lines`: label → number → scores of the seeds. `level`: the scores of arms that do not have the number, which are
    horizontal lines. `cloud`: other settings vary too, so that the points are not joined.
    """

    place: str
    rest: str
    lines: dict[str, dict[float, Spread]] = field(default_factory=lambda: defaultdict(dict))
    level: dict[str, Spread] = field(default_factory=dict)
    cloud: bool = False


def sensitivity(measures: Sequence[Measure]) -> list[Plot]:
    """Return a figure for each varied number, for measures of one family in all variants and environments."""
    panels: dict[str, dict[tuple[str, str], Panel]] = defaultdict(dict)
    for measure in measures:
        for arm in measure.arms:
            for name, value, label, rest in _find_places(measure, arm):
                panel = panels[name].setdefault((measure.place, rest), Panel(measure.place, rest))
                panel.lines[label][value] = measure.spread(arm)
                if BLANK in label:
                    plain = [arm for arm in (NONE, FRESH) if arm in measure.arms]
                    panel.level |= {arm: measure.spread(arm) for arm in plain}
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

    If most points are alone but the number has many values, return one panel with all points of each environment: they
    were drawn at random, so that hardly two of them have the same other settings.
    """
    curves = [panel for panel in panels if max(map(len, panel.lines.values())) > 1]
    sizes = [len(line) for panel in panels for line in panel.lines.values()]
    values = {value for panel in panels for line in panel.lines.values() for value in line}
    if 2 * sum(size for size in sizes if size > 1) >= sum(sizes) or len(values) < FEW:
        return curves
    clouds: dict[str, Panel] = {}
    for panel in panels:
        cloud = clouds.setdefault(panel.place, Panel(panel.place, "", cloud=True))
        cloud.level |= panel.level
        for label, line in panel.lines.items():
            cloud.lines[NUMBER.sub(rf"\1={BLANK}", label)] |= line
    return list(clouds.values())


def _plot_panels(name: str, panels: Sequence[Panel], measure: Measure) -> Plot:
    labels = list(dict.fromkeys(label for panel in panels for label in (*panel.level, *panel.lines)))
    styles = arm_styles(labels)
    shown = panels[:MOST_PANELS]
    one_environment = len({panel.place for panel in shown}) == 1  # its panels share a scale
    width = min(11.0, 3.0 + 4.0 * min(3, len(shown)))
    figure, grid = new_panels(len(shown), 0.5, 2.8, width, sharey=one_environment)
    values = [value for panel in shown for line in panel.lines.values() for value in line]
    for axes, panel in zip(grid, shown, strict=True):
        tidy(axes, ", ".join(filter(None, [panel.place, panel.rest])))
        _scale_axis(axes, values)
        for label, scores in panel.level.items():
            if scores.known.size:
                axes.axhline(measure.scale * scores.mean, linewidth=1.4, zorder=1, alpha=0.8, **styles[label])
        for i, (label, line) in enumerate(panel.lines.items()):
            shift = 0.0 if panel.cloud else i - (len(panel.lines) - 1) / 2
            _draw_line(axes, line, measure.scale, styles[label], shift, panel.cloud)
        axes.set_xlabel(name.replace("_", " "), fontsize=9.5, color=INK)
    family = measure.axis
    grid[0].set_ylabel(family, fontsize=9.5, color=INK)
    legend(figure, labels)
    words = name.replace("_", " ")
    caption = (
        f"Means of {family} over seeds, against {words}; points are not joined if other settings vary too. Small dots: "
        f"seeds; bars, of more than {FEW_SEEDS} seeds: 95 % Student-t interval. Horizontal lines: arms without this "
        "number. If you choose the best value from this figure, report its result on other seeds."
    )
    return Plot(f"sensitivity_{slug(name)}", f"Sensitivity to {words}", caption, figure)


def _draw_line(
    axes: Axes, line: dict[float, Spread], scale: float, style: dict[str, Any], shift: float, cloud: bool
) -> None:
    """Draw the means of a line, their intervals, and a dot for each seed. Dots are shifted, so that none is hidden."""
    at = sorted(value for value, scores in line.items() if scores.known.size)
    if not at:
        return
    color, means = style["color"], [scale * line[value].mean for value in at]
    look = {"linestyle": "none"} if cloud else {}
    axes.plot(at, means, marker="o", markersize=5, linewidth=1.6, zorder=3, **{**style, **look})
    aside = axes.transData + ScaledTranslation(shift * SHIFT / 72, 0, axes.figure.dpi_scale_trans)
    for value in at:
        scores, ends = scale * line[value].known, line[value].interval
        if scores.size > 1:
            where = np.full(scores.size, value)
            axes.update_datalim(np.column_stack([where, scores]))
            axes.scatter(where, scores, s=14, color=color, alpha=0.6, linewidths=0, zorder=2, transform=aside)
        if scores.size > FEW_SEEDS and ends:
            axes.vlines(value, scale * ends[0], scale * ends[1], color=color, linewidth=1.2, alpha=0.6)


def _scale_axis(axes: Axes, values: Sequence[float]) -> None:
    """Make an axis logarithmic if its values span a decade, and symmetric-logarithmic if they include 0 or less."""
    sizes = [abs(value) for value in values if value]
    if max(sizes, default=0.0) < DECADE * min(sizes, default=1.0):
        return
    if min(values) <= 0:
        axes.set_xscale("symlog", linthresh=min(sizes))
        return
    axes.set_xscale("log")
    if len(ticks := sorted(set(values))) <= MOST_TICKS:
        axes.set_xticks(ticks, [f"{value:g}" for value in ticks])
        axes.minorticks_off()
    else:
        axes.xaxis.set_major_formatter("{x:g}")
