"""Figure 12: how long it takes to learn the reverse of what one knows."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, ScalarFormatter

from ..style import FAINT, INK, PALETTE, new_figure, tidy
from .parts import SIMULATION, THEORY, both, labels, lambda_colour, legend, letter, split

REVERSAL, RANDOM = PALETTE[3], PALETTE[2]  # neither of them a colour of λ
DOT: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 5}
FLOOR = 1e-17  # where λ = 0 is drawn on a logarithmic axis
STEPS = "steps to convergence"


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Of `tracks.linear.figures.fig12.numbers`: steps over λ, steps as λ → 0, and the reversed singular value."""
    figure = new_figure(3.9)
    handles = [
        Line2D([], [], color=REVERSAL, label="reversal", **DOT),
        Line2D([], [], color=RANDOM, label="another random task (mean and range)", **SIMULATION),
        Line2D([], [], label="theory", **THEORY),
    ]
    legend(figure, handles)
    parts = split(figure, 1, 3, widths=(1.1, 1, 1.1))
    panels = (("over λ", _over_lambda), ("towards λ = 0", _towards_zero), ("the reversed direction", _singular_value))
    for part, name, (words, panel) in zip(parts, "ABC", panels, strict=True):
        letter(part, name, words)
        panel(part.subplots(), numbers)
    return figure


def _over_lambda(axes: Axes, numbers: Mapping[str, Any]) -> None:
    tidy(axes)
    lambdas = np.asarray(numbers["lambdas"])
    # what never converges (None) becomes NaN
    draws, expected = (np.array(numbers["random"][name], float) for name in ("simulated", "theory"))
    axes.fill_between(lambdas, draws.min(0), draws.max(0), color=RANDOM, alpha=0.18, linewidth=0)
    both(axes, lambdas, draws.mean(0), expected.mean(0), [RANDOM])
    axes.plot(lambdas, np.array(numbers["reversal"]["simulated"], float), color=REVERSAL, zorder=2.5, **DOT)
    # the theory's line goes on to the smallest |λ| of panel B
    tiny, spike = np.asarray(numbers["tiny_lambdas"]), np.array(numbers["tiny"]["theory"], float)
    near = (tiny > 0) & (tiny < lambdas[lambdas > 0].min())
    places = np.concatenate([lambdas, tiny[near], -tiny[near]])
    steps = np.concatenate([np.array(numbers["reversal"]["theory"], float), spike[near], spike[near]])
    for side in (places > 0, places < 0):
        order = np.argsort(places[side])
        axes.plot(places[side][order], steps[side][order], zorder=3, **THEORY)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_minor_formatter(NullFormatter())
    labels(axes, "λ", STEPS)


def _towards_zero(axes: Axes, numbers: Mapping[str, Any]) -> None:
    tidy(axes)
    lambdas = np.asarray(numbers["tiny_lambdas"])
    places = np.where(lambdas > 0, lambdas, FLOOR)
    steps = np.array(numbers["tiny"]["simulated"], float)
    axes.plot(places, steps, color=REVERSAL, **DOT)
    axes.plot(places, np.array(numbers["tiny"]["theory"], float), zorder=3, **THEORY)
    axes.set_xscale("log")
    ticks = [1.0, 1e-4, 1e-8, 1e-12, FLOOR]
    axes.set_xticks(ticks, ["1", *(f"$10^{{{round(np.log10(tick))}}}$" for tick in ticks[1:-1]), "0"])
    axes.minorticks_off()
    axes.invert_xaxis()
    axes.set_ylim(0, None)
    decade = f"{numbers['steps_a_decade']:.0f} steps a decade"
    axes.text(0.04, 0.93, decade, transform=axes.transAxes, fontsize=9, color=INK)
    if np.isfinite(steps[-1]):
        axes.annotate(
            "λ = 0: in theory never,\nhere rounding ends it", (places[-1], steps[-1]), (0.99, 0.34),
            textcoords="axes fraction", ha="right", fontsize=9, color=INK,
            arrowprops={"arrowstyle": "-", "color": FAINT, "shrinkB": 6, "relpos": (0.93, 1)},
        )  # fmt: skip
    labels(axes, "λ", STEPS)


def _singular_value(axes: Axes, numbers: Mapping[str, Any]) -> None:
    tidy(axes)
    curves = numbers["curves"]
    steps, simulated = np.asarray(curves["steps"]), np.asarray(curves["simulated"])
    colours = [lambda_colour(0.5 * i) for i in range(len(simulated))]
    both(axes, steps, simulated.T, np.transpose(curves["theory"]), colours)
    axes.set_xscale("log")
    for lam, values, colour in zip(curves["lambdas"], simulated, colours, strict=True):
        learned = values > 0.8 * curves["target"]
        name = f"$10^{{{round(np.log10(lam))}}}$" if 0 < lam < 1 else f"{lam:g}"
        if learned.any():
            place = (steps[learned.argmax()], curves["target"])
            axes.annotate(
                name,
                place,
                (0, 6),
                textcoords="offset points",
                ha="center",
                fontsize=9,
                fontweight="bold",
                color=colour,
            )
    axes.annotate("λ =", (steps[0], curves["target"]), (0, 6), textcoords="offset points", fontsize=9, color=INK)
    axes.margins(x=0.03)
    axes.set_ylim(None, 1.3 * curves["target"])
    labels(axes, "steps", "singular value")
