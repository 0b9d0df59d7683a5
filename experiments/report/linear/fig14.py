"""Figure 14: fine-tuning after re-balancing."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from ..style import FAINT, INK, new_figure, tidy
from .parts import THEORY, TIME, heat, key, labels, lambda_colour, legend, letter, split

LEAST = 1e-4  # part of the first loss, below which curves leave panel C
RING: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 8, "markeredgewidth": 2.2}
LEFT = "part of the first loss"


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Of `tracks.linear.figures.fig14.numbers`: the tasks, what is left of their loss over λ_FT, and losses over time.

    A column for the hierarchy, and one for each new task."""
    figure = new_figure(8.8)
    legend(figure, key())
    tasks, left, curves = split(figure, 3, 1, heights=(1.15, 1, 1.1))
    _tasks(tasks, numbers)
    _left(left, numbers)
    _curves(curves, numbers)
    return figure


def _tasks(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    letter(figure, "A", r"input–output correlation $\tilde{\Sigma}^{yx}$ of the tasks")
    tasks = {"pre-training: hierarchy": numbers["pretraining"]}
    tasks |= {f"fine-tuning: {name}": task for name, task in numbers["tasks"].items()}
    limit = max(np.abs(task["sigma_yx"]).max() for task in tasks.values())
    panels = figure.subplots(1, len(tasks))
    for axes, (title, task) in zip(panels, tasks.items(), strict=True):
        heat(axes, task["sigma_yx"], "", float(limit), "items")
        axes.set_ylabel("features", fontsize=8, color="#777777", labelpad=2)
        axes.set_title(title, fontsize=10, color=INK, fontweight="bold")
    panels[0].set_xlabel(f"items      (colours end at ±{limit:.2g})", fontsize=8, color="#777777", labelpad=2)


def _left(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    letter(figure, "B", f"loss that is left after {numbers['budget']:g} τ, over $λ_{{FT}}$")
    beside, *panels = figure.subplots(1, 1 + len(numbers["tasks"]))
    lambdas = numbers["pretrained"]
    for axes, task in zip(panels, numbers["tasks"].values(), strict=True):
        _nested(axes, numbers["finetuned"], np.transpose(task["left"]), np.transpose(task["theory"]), lambdas)
        for lam, kept in zip(lambdas, task["kept"], strict=True):
            axes.plot(lam, kept, zorder=4, markerfacecolor="white", markeredgecolor=_colour(lam), **RING)
        axes.sharey(panels[0])
        labels(axes, "$λ_{FT}$", LEFT if axes is panels[0] else "")
    beside.set_axis_off()
    ring = Line2D([], [], label=r"not re-balanced (∅), at $λ_{PT}$", markerfacecolor="white", color=FAINT, **RING)
    beside.legend(handles=[*_names(lambdas, "PT"), ring], frameon=False, fontsize=9.5, loc="center left")


def _curves(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    letter(figure, "C", f"loss while training;  fine-tuning after $λ_{{PT}} = {numbers['from']:g}$")
    panels = figure.subplots(1, 1 + len(numbers["tasks"]), sharey=True)
    phases = (numbers["pretraining"], *numbers["tasks"].values())
    for i, (axes, phase) in enumerate(zip(panels, phases, strict=True)):
        lambdas, what = (numbers["shown"], "FT") if i else (numbers["pretrained"], "PT")
        times, curves = np.asarray(phase["times"]), np.transpose(phase["curves"])
        _nested(axes, times, curves, np.transpose(phase["theory_curves"]), lambdas)
        if i < 2:
            place = "upper right" if i else (0.2, 0.03)  # free of curves
            axes.legend(handles=_names(lambdas, what), frameon=False, fontsize=9, loc=place, handlelength=1.6)
        axes.set_xlim(0, 1.05 * times[(curves >= LEAST).any(1)].max())
        labels(axes, TIME, "" if i else LEFT)
    panels[0].set_ylim(LEAST, 1.6)


def _nested(axes: Axes, x: ArrayLike, simulated: Any, theory: Any, lambdas: Sequence[float]) -> None:
    """Curves, (x, λ), that may coincide: each is thinner than those below it. Logarithmic."""
    tidy(axes)
    for curve, lam, width in zip(simulated.T, lambdas, _widths(lambdas), strict=True):
        axes.plot(x, curve, color=_colour(lam), linewidth=width, solid_capstyle="round", zorder=2)
    axes.plot(x, theory, zorder=3, **THEORY)
    axes.set_yscale("log")


def _names(lambdas: Sequence[float], what: str) -> list[Line2D]:
    return [
        Line2D([], [], color=_colour(lam), linewidth=width, label=f"$λ_{{{what}}} = {lam:g}$")
        for lam, width in zip(lambdas, _widths(lambdas), strict=True)
    ]


def _widths(lambdas: Sequence[float]) -> list[float]:
    widths: list[float] = np.linspace(6.5, 1.8, len(lambdas)).tolist()
    return widths


def _colour(lam: float) -> str:
    """Full at λ = ±10; the root tells ±2 from 0 as well."""
    return lambda_colour(np.cbrt(lam / 10), 1.0)
