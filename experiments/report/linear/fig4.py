"""Figure 4: representations of the semantic hierarchy, and robustness to noise."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from ..style import FAINT, INK, new_figure, tidy
from .parts import THEORY, heat, key, labels, lambda_colour, lambda_title, legend, letter, shades, split

ROWS = {
    "rsm_input": "input $RSM_I$\n(items)",
    "w2w2t": "output $W_2W_2^T$\n(features)",
}


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Of `tracks.linear.figures.fig4.numbers`; below each map is the value at which its colours end."""
    figure = new_figure(8.4)
    task, learnt, robust = split(figure, 3, 1, heights=(1.3, 1.9, 1.3))
    _task(task, numbers)
    simulated, theory, large = split(learnt, 1, 3, widths=(3.42, 3, 1.15))
    _maps(simulated, "B", "simulation", numbers["simulated"], numbers["lambdas"], True)
    _maps(theory, "C", "theory", numbers["theory"], numbers["lambdas"], False)
    _maps(large, "D", "large weights", {name: [numbers["large"][name]] for name in ROWS}, None, False)
    _noise(robust, numbers)
    return figure


def _task(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    letter(figure, "A", "semantic hierarchy: features of items, their singular vectors, and similarities")
    panels = figure.subplots(1, 6, width_ratios=(1.25, 1, 1, 1, 1, 1))
    heat(panels[0], numbers["sigma_yx"], r"$\tilde{\Sigma}^{yx}$")
    panels[0].set_yticks(range(8), numbers["features"], fontsize=7)
    panels[0].set_xticks(range(8), numbers["items"], fontsize=7, rotation=90)
    panels[0].tick_params(length=0, colors="#555555")
    panels[0].set_xlabel("")
    heat(panels[1], numbers["u"], r"$\tilde{U}$")
    heat(panels[2], np.diag(numbers["s"]), r"$\tilde{S}$")
    heat(panels[3], np.transpose(numbers["v"]), r"$\tilde{V}^T$")
    heat(panels[4], numbers["task_items"], r"$\tilde{V}\tilde{S}\tilde{V}^T$ (items)")
    heat(panels[5], numbers["task_features"], r"$\tilde{U}\tilde{S}\tilde{U}^T$ (features)")


def _maps(
    figure: SubFigure, name: str, title: str, maps: Mapping[str, Any], lambdas: list[float] | None, named: bool
) -> None:
    """A row for each kind of similarity, a column for each λ. named: with the rows' names."""
    letter(figure, name, title)
    columns = len(lambdas) if lambdas else 1
    grid = figure.subplots(len(ROWS), columns, squeeze=False)
    for row, (kind, words) in zip(grid, ROWS.items(), strict=True):
        for axes, matrix in zip(row, maps[kind], strict=True):
            heat(axes, matrix)
        if named:
            row[0].set_ylabel(words, fontsize=9, color=INK)
    for axes, lam in zip(grid[0], lambdas or (), strict=False):
        axes.set_title(lambda_title(lam), fontsize=10, color=lambda_colour(lam), fontweight="bold")
    if not lambdas:
        grid[0, 0].set_title("not balanced", fontsize=9.5, color=INK)


def _noise(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    letter(figure, "E", "loss added by noise after training")
    stds = numbers["noise_stds"]
    # one colour for each strength of noise: from faint to ink
    colours = [FAINT, *reversed(shades("#5b3a8e", len(stds) - 1))]
    for axes, (name, words) in zip(
        figure.subplots(1, 2), (("inputs", "noise in inputs"), ("weights", "noise in weights")), strict=True
    ):
        tidy(axes, words)
        for colour, simulated, theory in zip(
            colours, numbers["noise"][name]["simulated"], numbers["noise"][name]["theory"], strict=True
        ):
            axes.plot(numbers["noise_lambdas"], simulated, "o", color=colour, markersize=5)
            axes.plot(numbers["noise_lambdas"], theory, **THEORY)
        labels(axes, "λ", "added loss")
    handles = [
        Line2D([], [], linestyle="", marker="o", color=colour, label=f"σ = {std:g}")
        for colour, std in zip(colours, stds, strict=True)
    ]
    legend(figure, [*handles, *key(marker=True)])
