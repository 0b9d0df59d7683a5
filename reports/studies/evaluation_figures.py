"""Figures of a study: the first phase, which its arms share, and evaluations over time."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from supple.experiments.comparisons.grid import variant_text
from supple.experiments.history.data import ComparisonData, RunData, any_logged
from supple.reports.figures.diagnostics import before_and_after, metrics_over_time
from supple.reports.figures.style import (
    BASELINE,
    FORK,
    INK,
    PALETTE,
    Plot,
    arm_styles,
    draw_band,
    legend,
    mark_stream,
    new_figure,
    new_panels,
    on_common_steps,
    seeds_phrase,
    step_unit,
    tidy,
)

from .evaluation_tables import is_share
from .evaluations import evaluated_names, short_names

Array = NDArray[np.float64]
MOST_LINES = 21  # in one panel: three rounds of the palette
FEW_POINTS = 20
ABRUPT = 0.25  # share of a run whose losses may exceed the panel: after a reset, they begin where pretraining did
CUT = "Curves are cut where a loss exceeds its panel. "


def views(data: ComparisonData, apart: bool = False) -> list[tuple[str, ComparisonData]]:
    """Return the variants and arms that share a panel, as (variant, data).

    With `apart`, or if there are too many lines to distinguish, each variant has its own panel.
    """
    variants = by_variant(data)
    if len(variants) == 1 or apart or len(data.arms) > MOST_LINES:
        return list(variants.items())
    return [("", replace(data, palette=()))]


def by_variant(data: ComparisonData) -> dict[str, ComparisonData]:
    """Return the data of each variant, in which arms have their own names."""
    variants: dict[str, dict[str, list[RunData]]] = {}
    for label, runs in data.arms.items():
        arm, variant = data.point(label)
        variants.setdefault(variant_text(variant), {})[arm] = runs
    return {words: replace(data, arms=arms, points={}) for words, arms in variants.items()}


def plot_views(study: ComparisonData, apart: bool = False) -> list[Plot]:
    """Return the figures of evaluations, metrics, and interventions before and after, for each view."""
    plots = []
    for words, data in views(study, apart):
        drawn = [plot_evaluations(data), *metrics_over_time(data), before_and_after(data)]
        plots += [plot.of(words) for plot in drawn if plot is not None]
    return plots


def plot_first_phase(study: ComparisonData) -> Plot | None:
    """Plot the losses of the phase that all arms share, with the updates at which second phases begin."""
    trunks = list(study.trunks.values())
    names = [name for name in ("val_loss", "train_loss") if any_logged(trunks, name)]
    if not names:
        return None
    end = max(trunk.spec.end for trunk in trunks)
    divisor, label, _ = step_unit(end, "updates")
    figure = new_figure(3.6)
    axes = figure.subplots()
    tidy(axes)
    drawn = []
    for name, color in zip(names, (BASELINE, PALETTE[0]), strict=False):
        steps, values = on_common_steps([trunk.series(name) for trunk in trunks])
        draw_band(axes, steps / divisor, values, {"color": color, "label": name.replace("_", " ")})
        drawn.append((steps, values))
    cut = cut_losses(axes, *_panel_limits(drawn, end))
    marks: dict[float, list[str]] = defaultdict(list)
    for variant, data in by_variant(study).items():
        starts = [run.spec.start.step for run in data.runs]
        for start in dict.fromkeys(starts):
            axes.axvline(start / divisor, zorder=1, **FORK)
        marks[float(np.mean(starts)) / divisor].append(variant or "start")
    for where, words in marks.items():
        axes.annotate(
            ", ".join(words), (where, 1), (-3, -3), xycoords=("data", "axes fraction"),
            textcoords="offset points", rotation=90, ha="right", va="top", fontsize=8.5, color=FORK["color"],
        )  # fmt: skip
    axes.set_xlim(0, 1.01 * end / divisor)
    axes.set_xlabel(label, fontsize=9.5, color=INK)
    axes.legend(frameon=False, fontsize=9.5, loc="lower left")
    caption = f"Dashed lines: beginnings of second phases. {CUT if cut else ''}" + seeds_phrase(len(trunks))
    return Plot("first_phase", "The first phase", caption, figure)


def plot_evaluations(data: ComparisonData) -> Plot | None:
    """Plot small multiples of all evaluated numbers over updates."""
    names = evaluated_names(data.runs)
    if not names:
        return None
    divisor, label, _ = step_unit(data.total_steps, "updates")
    figure, grid = new_panels(len(names), 0.4, 2.6)
    cut = False
    short = short_names(names)
    for axes, name in zip(grid, names, strict=True):
        whole = name.split("/")[0].replace("_", " ") + (" (%)" if is_share(name) else "")
        tidy(axes, f"{whole}: {short[name]}" if name in short else whole)
        mark_stream(axes, data.first, divisor, None)
        top, bottom = draw_arms(axes, data, name, divisor, 100.0 if is_share(name) else 1.0)
        if "loss" in name:
            cut |= cut_losses(axes, top, bottom)
        axes.set_xlim(0, data.total_steps / divisor)
        axes.set_xlabel(label, fontsize=9.5, color=INK)
    legend(figure, list(data.arms), among=data.labels)
    switches = "Thin vertical lines are task switches. " if len(data.first.tasks) > 1 else ""
    caption = f"Evaluations during training. {switches}{CUT if cut else ''}" + seeds_phrase(data.seeds)
    return Plot("evaluations", "Evaluations", caption, figure)


def draw_arms(axes: Axes, data: ComparisonData, name: str, divisor: float, scale: float = 1.0) -> tuple[float, float]:
    """Draw the curves of all arms. Return the largest value after the first quarter, and the smallest of all.

    Args:
        axes: The panel.
        data: The runs, by arm.
        name: The evaluated number.
        divisor: Steps per unit of the horizontal axis.
        scale: The factor with which the number is shown.
    """
    styles, drawn = arm_styles(data.labels), []
    for label, runs in data.arms.items():
        steps, values = on_common_steps([run.series(name) for run in runs])
        dots = len(steps) < FEW_POINTS and "loss" not in name  # losses may be cut, but dots are not clipped
        draw_band(axes, steps / divisor, scale * values, styles[label], dots, 100.0 if is_share(name) else np.inf)
        drawn.append((steps, scale * values))
    return _panel_limits(drawn, data.total_steps)


def _panel_limits(drawn: Sequence[tuple[Array, Array]], total: int) -> tuple[float, float]:
    """Return the largest value after the first `ABRUPT` share of the updates, and the smallest of all; NaN if none."""
    late = [values[:, steps >= ABRUPT * total] for steps, values in drawn if steps.size]
    tops = [values.max() for values in late if values.size]
    bottoms = [values.min() for _, values in drawn if values.size]
    return max(tops, default=np.nan), min(bottoms, default=np.nan)


def cut_losses(axes: Axes, top: float, bottom: float) -> bool:
    """Cut a panel of losses above `top` if that removes at least half of its height. Return whether it was cut."""
    highest = axes.dataLim.y1
    if not np.isfinite([top, bottom]).all() or top <= bottom or highest - bottom < 2 * (top - bottom):
        return False
    margin = 0.08 * (top - bottom)
    axes.set_ylim(bottom - margin, top + 2 * margin)
    return True
