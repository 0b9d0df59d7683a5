"""Figure 11: one task after another, and what becomes of those before."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..style import PALETTE, SHADE, new_figure, tidy
from .parts import SIMULATION, THEORY, TIME, both, key, labels, legend, letter, shades

ENTRIES = "#5f4b8b"  # of the network function: none of the tasks' colours
THIN = {**SIMULATION, "linewidth": 2.0}


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Of `tracks.linear.figures.fig11.numbers`: the network function, and every task's loss, through all tasks."""
    figure = new_figure(5.6)
    letter(figure, "A", "four random regressions in turn, from small weights")
    function, losses = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1.15))
    times = np.asarray(numbers["times"])
    # above what the best linear map leaves: 0 is learned
    least = np.asarray(numbers["least_losses"])
    simulated, theory = (np.asarray(numbers[f"{name}_losses"]) - least for name in ("simulated", "theory"))
    count = len(simulated)
    for task, (entries, dots) in enumerate(zip(numbers["simulated_function"], numbers["theory_function"], strict=True)):
        start = task * times[-1]
        both(function, start + times, entries, dots, shades(ENTRIES, len(entries[0])))
        for tested, colour in enumerate(PALETTE[:count]):
            style = SIMULATION if tested == task else THIN
            losses.plot(start + times, simulated[task, :, tested], color=colour, zorder=2, **style)
        losses.plot(start + times, theory[task], zorder=3, **THEORY)
        for axes in (function, losses):
            if task % 2:
                axes.axvspan(start, start + times[-1], color=SHADE, zorder=0, linewidth=0)
        function.annotate(
            f"learns task {task + 1}", (start + times[-1] / 2, 1.0), (0, 3), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="center", va="bottom", fontsize=10, fontweight="bold", color=PALETTE[task],
        )  # fmt: skip
    for axes in (function, losses):
        tidy(axes)
    function.set_xlim(0, count * times[-1])
    losses.set_ylim(0, None)
    labels(function, "", "entries of $W_2W_1$")
    labels(losses, TIME, "excess loss of every task\n(bold: the one it learns)")
    names = [
        Line2D([], [], color=colour, label=f"task {i + 1}", **SIMULATION) for i, colour in enumerate(PALETTE[:count])
    ]
    legend(figure, [*names, *key()])
    return figure
