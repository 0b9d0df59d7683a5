"""Figures of curvature and gradients before and after scale-invariant balancing (SIB, Figures 2 and 3).

They draw the reports of `tracks.language.balance`, by the names of models.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from supple.metrics.arrays import Array
from supple.reports.figures.style import BASELINE, FORK, INK, PALETTE, Plot, new_figure, shorten, tidy

Reports = Mapping[str, Mapping[str, Any]]
MARKERS = "osD^vP*X"


def eigenvalue_ratios(reports: Reports) -> Plot | None:
    """Plot each of the Hessian's largest eigenvalues after balancing, divided by its value before.

    Return None if none was measured."""
    ratios = {name: report["eigenvalues"]["ratio"] for name, report in reports.items() if report["eigenvalues"]}
    if not ratios:
        return None
    figure = new_figure(3.8, 7.0)
    axes = figure.subplots()
    tidy(axes)
    for i, (name, values) in enumerate(ratios.items()):
        shares = np.array([np.nan if value is None else value for value in values])
        style: dict[str, Any] = {"color": PALETTE[i % len(PALETTE)], "marker": MARKERS[i % len(MARKERS)]}
        axes.plot(np.arange(1, len(shares) + 1), shares, linewidth=1.6, markersize=5, label=shorten(name), **style)
    axes.axhline(1.0, **FORK)
    axes.annotate("before", (1, 1), (0, 4), textcoords="offset points", fontsize=9, color=FORK["color"])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("eigenvalue of the Hessian, from the largest", fontsize=9.5, color=INK)
    axes.set_ylabel("after SIB / before", fontsize=9.5, color=INK)
    axes.legend(frameon=False, fontsize=9.5)
    caption = (
        "Largest (algebraic) eigenvalues of the retain loss's Hessian; below 1 the sharpest directions are flatter."
    )
    return Plot("sib_eigenvalues", "Curvature after balancing", caption, figure)


def gradient_norms(reports: Reports) -> Plot:
    """Plot the norm of the whole gradient before and after balancing, with each model's larger one scaled to 1."""
    figure = new_figure(1.6 + 0.55 * len(reports), 7.0)
    axes = figure.subplots()
    tidy(axes, grid="x")
    norms = {name: norm["gradient_norm"] for name, norm in reports.items()}
    before = np.array([float(np.mean(norm["before"])) for norm in norms.values()])
    after = np.array([float(np.mean(norm["after"])) for norm in norms.values()])
    top = np.maximum(before, after)
    places = np.arange(len(norms), dtype=np.float64)
    _bars(axes, places - 0.19, before / top, BASELINE, "before")
    _bars(axes, places + 0.19, after / top, PALETTE[0], "after SIB")
    axes.set_yticks(places, list(norms))
    axes.invert_yaxis()
    axes.set_xlim(0, 1.12)
    axes.set_xlabel("‖∇L‖ of the retain loss, normalised", fontsize=9.5, color=INK)
    figure.legend(loc="outside upper left", ncols=2, frameon=False, fontsize=9.5)
    caption = (
        "Norm of the gradient by all trainable weights, mean of the retain batches, by the first of which the model "
        "was balanced."
    )
    return Plot("sib_gradient_norms", "Gradient norm after balancing", caption, figure)


def _bars(axes: Axes, places: Array, shares: Array, color: str, label: str) -> None:
    axes.barh(places, shares, height=0.34, color=color, label=label)
    for place, share in zip(places, shares, strict=True):
        axes.annotate(f"{share:.2f}", (share, place), (4, 0), textcoords="offset points", va="center", fontsize=9)
