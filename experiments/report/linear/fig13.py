"""Figure 13: a new feature of one item, and what the network makes of it for the others."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..style import BASELINE, FAINT, INK, PALETTE, new_figure, tidy
from .parts import both, key, labels, lambda_colour, lambda_title, legend, letter, split

NEW = PALETTE[3]
DOT: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 6}
EXPECTED: dict[str, Any] = {"linestyle": "", "marker": "_", "markersize": 18, "markeredgewidth": 2, "color": INK}


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Of `tracks.linear.figures.fig13.numbers`: the hierarchy, loss on untrained items, the feature of every item."""
    figure = new_figure(4.0)
    legend(figure, [*key(), Line2D([], [], label="the hierarchy's own answer", **{**EXPECTED, "markersize": 12})])
    parts = split(figure, 1, 3, widths=(1.15, 0.9, 1.25))
    panels = (
        ("a new feature of one item", _hierarchy),
        ("untrained items, over λ", _loss),
        ("the new feature of every item", _feature),
    )
    for part, name, (words, panel) in zip(parts, "ABC", panels, strict=True):
        letter(part, name, words)
        panel(part.subplots(), numbers)
    return figure


def _hierarchy(axes: Axes, numbers: Mapping[str, Any]) -> None:
    """The tree over the items, and who has the new feature."""
    axes.set_axis_off()
    items = numbers["items"]
    places, height = np.arange(len(items), dtype=float), 0.0
    while len(places) > 1:
        parents = places.reshape(-1, 2).mean(1)
        for parent, pair in zip(parents, places.reshape(-1, 2), strict=True):
            for child in pair:
                axes.plot([parent, child], [height + 1, height], color=FAINT, linewidth=1.4, zorder=1)
        axes.scatter(parents, np.full(len(parents), height + 1), s=26, color=BASELINE, zorder=2)
        places, height = parents, height + 1
    for i, item in enumerate(items):
        trained = i == numbers["trained"]
        axes.scatter(i, 0, s=70 if trained else 34, color=NEW if trained else BASELINE, zorder=2)
        name: dict[str, Any] = {"fontweight": "bold", "color": NEW} if trained else {"color": INK}
        axes.text(i, -0.2, item, rotation=90, ha="center", va="top", fontsize=9, **name)
        axes.text(i, -1.75, "1" if trained else "?", ha="center", va="center", fontsize=11, **name)
    axes.text(len(items) / 2 - 0.5, -2.2, "eats worms", ha="center", va="center", fontsize=9.5, color=NEW)
    axes.set_ylim(-2.35, height + 0.15)


def _loss(axes: Axes, numbers: Mapping[str, Any]) -> None:
    tidy(axes)
    lambdas, loss = numbers["lambdas"], numbers["simulated_loss"]
    both(axes, lambdas, loss, numbers["theory_loss"], [FAINT])
    for lam in numbers["shown"]:
        axes.plot(lam, loss[lambdas.index(lam)], color=_colour(lam), zorder=4, clip_on=False, **DOT)
    axes.set_ylim(0, None)
    labels(axes, "λ", "generalisation loss")


def _feature(axes: Axes, numbers: Mapping[str, Any]) -> None:
    tidy(axes)
    places = np.arange(len(numbers["items"]))
    colours = [_colour(lam) for lam in numbers["shown"]]
    axes.plot(places, numbers["expected"], zorder=4, **EXPECTED)
    both(axes, places, np.transpose(numbers["simulated"]), np.transpose(numbers["theory"]), colours)
    names = [Line2D([], [], color=colour, linewidth=2.6) for colour in colours]
    titles = [lambda_title(lam) for lam in numbers["shown"]]
    axes.legend(names[::-1], titles[::-1], frameon=False, fontsize=9.5, loc="upper right", handlelength=1.4)
    axes.set_xticks(places, numbers["items"], rotation=45, ha="right", rotation_mode="anchor")
    axes.margins(x=0.07)
    labels(axes, "", "new feature $\\hat{y}_f$")


def _colour(lam: float) -> str:
    """Full at λ = ±10; the root tells ±2 from 0 as well."""
    return lambda_colour(np.cbrt(lam / 10), 1.0)
