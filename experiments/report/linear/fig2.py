"""Figure 2: loss, function, weight correlations and NTK over training."""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..style import FAINT, new_figure, tidy
from .parts import TIME, both, key, labels, lambda_colour, lambda_title, legend, shades

ROWS = {
    "loss": "loss",
    "function": "function\n$W_2W_1$",
    "w1tw1": "input weights\n$W_1^TW_1$",
    "w2w2t": "output weights\n$W_2W_2^T$",
    "ntk": "tangent kernel\nentries",
}


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Of `tracks.linear.figures.fig2.numbers`: a column for each λ, a row for each quantity."""
    figure = new_figure(8.6)
    lambdas = numbers["lambdas"]
    grid = figure.subplots(len(ROWS), len(lambdas), sharex=True, sharey="row")
    for row, (name, words) in zip(grid, ROWS.items(), strict=True):
        for i, (axes, lam) in enumerate(zip(row, lambdas, strict=True)):
            simulated, theory = (numbers[which][name][i] for which in ("simulated", "theory"))
            tidy(axes)
            both(axes, numbers["times"], simulated, theory, shades(lambda_colour(lam), len(simulated[0])))
            axes.set_xlim(0, numbers["times"][-1])
            axes.margins(y=0.1)
        labels(row[0], "", words)
    for axes in grid[0]:
        axes.axhline(numbers["least_loss"], color=FAINT, linewidth=0.8, zorder=1)
    for letter, axes, lam in zip("ABC", grid[0], lambdas, strict=False):
        axes.set_title(rf"$\bf{{{letter}}}$   {lambda_title(lam)}", loc="left", fontsize=11, color=lambda_colour(lam))
    for axes in grid[-1]:
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        labels(axes, TIME)
    labels(grid[-1][0], TIME, ROWS["ntk"])
    figure.align_ylabels(grid[:, 0])
    legend(figure, key())
    return figure
