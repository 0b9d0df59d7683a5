"""Figure 1: a minimal model of rich and lazy learning."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure, SubFigure

from ..style import new_figure, tidy
from .parts import TIME, both, heat, key, labels, lambda_colour, lambda_title, legend, letter, network, shades, split

THIN, THICK = 0.9, 3.4  # lines of the layer with the smaller and the larger weights, in points


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Of `tracks.linear.figures.fig1.numbers`: schematics, outputs over training, LeCun's initialisation."""
    figure = new_figure(5.6)
    learning, initial = split(figure, 1, 2, widths=(2.55, 1))
    above, below = split(learning, 2, 1, heights=(1, 1.5))
    _schematics(above, numbers)
    _outputs(below, numbers)
    _lecun(initial, numbers)
    return figure


def _schematics(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    letter(figure, "A", "relative scale of the layers:  $W_2^T W_2 - W_1 W_1^T = λI$")
    for axes, lam in zip(figure.subplots(1, 3), numbers["lambdas"], strict=True):
        widths = (THICK, THIN) if lam < 0 else (THIN, THICK) if lam > 0 else (THIN + 0.7,) * 2
        network(axes, numbers["sizes"], lambda_colour(lam), widths)
        axes.set_title(lambda_title(lam), fontsize=10.5, color=lambda_colour(lam), fontweight="bold")


def _outputs(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    letter(figure, "B", "outputs while learning")
    legend(figure, key())
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    for axes, lam, simulated, theory in zip(
        panels, numbers["lambdas"], numbers["simulated"], numbers["theory"], strict=True
    ):
        tidy(axes)
        both(axes, numbers["times"], simulated, theory, shades(lambda_colour(lam), len(simulated[0])))
        axes.set_xlim(0, numbers["times"][-1])
        labels(axes, TIME)
    labels(panels[0], TIME, r"output $\hat{y}$")


def _lecun(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    letter(figure, "C", "LeCun initialisation")
    found, expected = np.asarray(numbers["balance"]), numbers["expected_lambda"]
    n_in, n_hidden, n_out = numbers["lecun_sizes"]
    above, below = figure.subplots(2, 1)
    limit = 1.25 * abs(expected)
    heat(above, found, f"$W_2^T W_2 - W_1 W_1^T$,  {n_in}-{n_hidden}-{n_out}", limit,
         f"mean of the diagonal {numbers['measured_lambda']:.2f}")  # fmt: skip
    image = heat(below, expected * np.eye(len(found)), "$(N_o/N_h - 1)\\,I$", limit, f"λ = {expected:.2f}")
    bar = figure.colorbar(image, ax=[above, below], shrink=0.55, pad=0.03, aspect=25)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8.5, colors="#555555", length=2)
