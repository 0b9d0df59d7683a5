"""Figures of evaluations: the first phase, which all arms share, and evaluated numbers over updates."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from operator import methodcaller

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from supple.experiments.comparisons.grid import variant_text
from supple.experiments.history.data import ComparisonData, RunData, any_logged
from supple.reports.figures.diagnostics import before_and_after, metrics_over_time
from supple.reports.figures.style import (
    BASELINE,
    FORK,
    PALETTE,
    Pieces,
    Plot,
    arm_styles,
    draw_panels,
    legend,
    mark_stream,
    seeds_phrase,
    seeds_phrase_of,
    step_unit,
)
from supple.reports.tables.differences import group_by

from .evaluation_tables import is_share
from .evaluations import evaluated_names, short_names

MOST_LINES = 21  # in one panel: three rounds of the palette
ABRUPT = 0.25  # share of a run whose losses may exceed the panel: after a reset, they begin where pretraining did
CUT = "A panel of losses may be cut at the top. "


def by_variant(data: ComparisonData) -> dict[str, ComparisonData]:
    """Return the data of each variant, in which arms have their own names."""
    variants: dict[str, dict[str, list[RunData]]] = {}
    for label, runs in data.arms.items():
        arm, variant = data.point(label)
        variants.setdefault(variant_text(variant), {})[arm] = runs
    palette = data.palette or tuple(dict.fromkeys(chain(*variants.values())))
    return {words: replace(data, arms=arms, palette=palette, points={}) for words, arms in variants.items()}


def plot_views(data: ComparisonData, apart: bool = False) -> list[Plot]:
    """Return the figures of evaluations, metrics, and interventions before and after.

    With `apart`, or if there are too many lines to distinguish, each variant has its own.
    """
    views = by_variant(data)
    if len(views) > 1 and not apart and len(data.arms) <= MOST_LINES:
        views = {"": replace(data, palette=())}
    plots: list[Plot] = []
    for words, own in views.items():
        drawn = [plot_evaluations(own), *metrics_over_time(own), before_and_after(own)]
        plots += [plot.of(words) for plot in drawn if plot is not None]
    return plots


def plot_first_phase(data: ComparisonData) -> Plot | None:
    """Plot the losses of the phase that all arms share, with the updates at which second phases begin."""
    trunks = data.trunks
    names = [name for name in ("val_loss", "train_loss") if any_logged(trunks, name)]
    if not names or len(trunks) > len({trunk.seed for trunk in trunks}):  # or variants have their own
        return None
    end = max(trunk.spec.end for trunk in trunks)
    divisor, label = step_unit(end, "updates")
    pieces: Pieces = [
        ({"color": color, "label": name.replace("_", " ")}, list(map(methodcaller("series", name), trunks)))
        for name, color in zip(names, (BASELINE, PALETTE[0]), strict=False)
    ]
    figure, (axes,) = draw_panels({"": pieces}, label, 3.2, divisor)
    cut_losses(axes, pieces, end)
    starts = {}
    for words, own in by_variant(data).items():
        starts[words] = [run.spec.start.step / divisor for run in own.runs]
    for start in dict.fromkeys(chain(*starts.values())):
        axes.axvline(start, zorder=1, **FORK)
    for where, variants in group_by(list(starts), lambda words: float(np.mean(starts[words]))).items():
        axes.annotate(
            ", ".join(variants) or "start", (where, 1), (-3, -3), xycoords=("data", "axes fraction"),
            textcoords="offset points", rotation=90, ha="right", va="top", fontsize=8.5, color=FORK["color"],
        )  # fmt: skip
    axes.set_xlim(0, 1.01 * end / divisor)
    axes.legend(frameon=False, fontsize=9.5, loc="lower left")
    caption = f"Dashed lines: beginnings of second phases. {CUT}" + seeds_phrase(len(trunks))
    return Plot("first_phase", "The first phase", caption, figure)


def plot_evaluations(data: ComparisonData) -> Plot | None:
    """Plot small multiples of all evaluated numbers over updates."""
    names = evaluated_names(data.runs)
    if not names:
        return None
    short, panels = short_names(names), {}
    for name in names:
        whole = name.split("/")[0].replace("_", " ") + (" (%)" if is_share(name) else "")
        panels[f"{whole}: {short[name]}" if name in short else whole] = arm_curves(data, name)
    figure = draw_evaluations(data, panels, 2.6)
    legend(figure, list(data.arms), among=data.labels)
    seeds = seeds_phrase_of(data)
    caption = f"Evaluations during training. Thin vertical lines: task switches. {CUT}{seeds}"
    return Plot("evaluations", "Evaluations", caption, figure)


def plot_validation_loss(data: ComparisonData) -> Plot | None:
    """Plot the loss over the updates since each start, one panel per start and one line per arm (FIRE, Figure 3).

    Return None with a single start, whose curves `plot_evaluations` plots.
    """
    variants = by_variant(data)
    if len(variants) < 2:
        return None
    panels = {words: arm_curves(own, "val_loss") for words, own in variants.items()}
    figure = draw_evaluations(data, panels, 3.2, sharex=True, sharey=True)
    labels = next(iter(variants.values())).labels
    legend(figure, labels)
    caption = (
        "Validation loss over the updates since the start of the second phase; a line begins right after what "
        f"intervened there. {CUT}" + seeds_phrase(data.seeds, len(labels))
    )
    return Plot("validation_loss", "Validation loss from each start", caption, figure)


def arm_curves(data: ComparisonData, name: str) -> Pieces:
    """Return the curves of an evaluated number, in % if it is a share, for all arms."""
    styles, scale = arm_styles(data.labels), 100.0 if is_share(name) else 1.0
    pieces: Pieces = []
    for label, runs in data.arms.items():
        series = map(methodcaller("series", name), runs)
        pieces.append((styles[label], [(steps, scale * values) for steps, values in series]))
    return pieces


def draw_evaluations(data: ComparisonData, panels: Mapping[str, Pieces], row: float, **layout: bool) -> Figure:
    """Return a figure with these panels over updates."""
    divisor, label = step_unit(data.total_steps, "updates")
    figure, grid = draw_panels(panels, label, row, divisor, **layout)
    for axes, (title, pieces) in zip(grid, panels.items(), strict=True):
        mark_stream(axes, data, divisor)
        same_scale = list(chain(*panels.values())) if layout.get("sharey") else pieces
        if "(%)" not in title:
            cut_losses(axes, same_scale, data.total_steps)
    return figure


def cut_losses(axes: Axes, pieces: Pieces, total: int) -> None:
    """Cut a panel above its largest value after the first `ABRUPT` of the updates, if that removes half its height."""
    series = [(steps, values) for _, of_seeds in pieces for steps, values in of_seeds if steps.size]
    late = [values[steps >= ABRUPT * total] for steps, values in series]
    top = max((float(values.max()) for values in late if values.size), default=np.nan)
    bottom = min((float(values.min()) for _, values in series), default=np.nan)
    highest = max((float(values.max()) for _, values in series), default=np.nan)
    if highest - bottom >= 2 * (top - bottom) > 0:
        margin = 0.08 * (top - bottom)
        axes.set_ylim(bottom - margin, top + 2 * margin)
