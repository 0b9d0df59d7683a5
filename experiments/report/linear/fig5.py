"""Figure 5: kernel distance from initialisation for three architectures."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, SubFigure

from ..style import PALETTE, new_figure, tidy
from .parts import DIVERGING, THEORY, TIME, both, key, labels, lambda_colour, legend, letter, network, split

COLOURS = {"funnel": PALETTE[0], "square": PALETTE[2], "inverted funnel": PALETTE[3]}
DISTANCE = "kernel distance from start"


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Of `tracks.linear.figures.fig5.numbers`: architectures, distance over λ, distance over time."""
    figure = new_figure(6.6)
    above, below = split(figure, 2, 1)
    schematics, final = split(above, 1, 2, widths=(1.15, 1))
    letter(schematics, "A", "architectures")
    for axes, (name, sizes) in zip(schematics.subplots(1, 3), numbers["architectures"].items(), strict=True):
        network(axes, sizes, COLOURS[name], (1.6, 1.6))
        axes.set_ylim(-2.9, 2.1)  # as large as the tallest
        axes.set_title(f"{name}\n{'-'.join(map(str, sizes))}", fontsize=10, color=COLOURS[name], fontweight="bold")
    _final(final, numbers)
    _course(below, numbers)
    return figure


def _final(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    letter(figure, "B", "after training")
    axes = figure.subplots()
    tidy(axes)
    for name, values in numbers["final"].items():
        axes.plot(numbers["lambdas"], values["simulated"], "o", color=COLOURS[name], markersize=5.5, zorder=2)
        axes.plot(numbers["theory_lambdas"], values["theory"], zorder=3, **THEORY)
    axes.set_xticks([-9, -6, -3, 0, 3, 6, 9])
    labels(axes, "λ", DISTANCE)
    legend(figure, key(marker=True))


def _course(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    letter(figure, "C", "over training")
    most = max(map(abs, numbers["lambdas"]))
    colours = [lambda_colour(lam, most) for lam in numbers["lambdas"]]
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    for axes, (name, values) in zip(panels, numbers["course"].items(), strict=True):
        tidy(axes)
        axes.set_title(name, fontsize=10, color=COLOURS[name], fontweight="bold")
        both(axes, numbers["times"], np.transpose(values["simulated"]), np.transpose(values["theory"]), colours)
        axes.set_xscale("log")
        axes.set_xlim(numbers["times"][0], numbers["times"][-1])
        labels(axes, TIME)
    labels(panels[0], TIME, DISTANCE)
    bar = figure.colorbar(ScalarMappable(Normalize(-most, most), DIVERGING), ax=panels, pad=0.015, aspect=22)
    bar.set_label("λ", fontsize=9.5)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8.5, colors="#555555", length=2)
    legend(figure, key())
