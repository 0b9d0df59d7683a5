"""Figure 3: singular values over training."""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from ..style import FAINT, new_figure, tidy
from .parts import TIME, both, key, labels, lambda_colour, lambda_title, legend, shades


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Of `tracks.linear.figures.fig3.numbers`: a panel for each λ; hairlines are the task's singular values."""
    figure = new_figure(3.3)
    panels = figure.subplots(1, len(numbers["lambdas"]), sharex=True, sharey=True)
    for i, (axes, lam) in enumerate(zip(panels, numbers["lambdas"], strict=True)):
        tidy(axes)
        for target in numbers["targets"]:
            axes.axhline(target, color=FAINT, linewidth=0.8, zorder=1)
        simulated, theory = numbers["simulated"][i], numbers["theory"][i]
        both(axes, numbers["times"], simulated, theory, shades(lambda_colour(lam), len(simulated[0])))
        axes.set_xlim(0, numbers["times"][-1])
        title = rf"$\bf{{{'ABC'[i]}}}$   {lambda_title(lam)}"
        axes.set_title(title, loc="left", fontsize=11, color=lambda_colour(lam))
        labels(axes, TIME)
    labels(panels[0], TIME, r"singular values $s_\alpha$ of $W_2W_1$")
    legend(figure, key())
    return figure
