"""Figure 11: a network that learns tasks in sequence forgets exactly as the closed form predicts.

A. From small zero-balanced weights, a 5-10-6 network learns four random regressions in sequence. Top: entries of the
network function W₂W₁ (its first column, the response of each output to the first input). Bottom: the loss on every
task, also while another task is trained. Gradient descent, and the exact solution continued from task to task.

Settings of the paper (D.1), used here: N_i, N_h, N_o = 5, 10, 6, 25 examples, targets with standard deviation 1/√N_o, σ
= 1e-4. The paper's η is 0.05. Gradient descent follows the flow and conserves λ up to O(η). This error decides when a
network leaves a saddle: with η = 0.05 the difference is 2.5 % of the largest entry for seed 0, and up to 15 % for
others. Here η = 0.005, where it is 0.3 %, and up to 3 % (the integrated flow agrees to 1e-9). The paper does not give
the length. Here a task has 100 τ (20,000 steps). The weights are exactly zero-balanced (Algorithm 1), so their product
has standard deviation √N_h·σ². N_h is larger than max(N_i, N_o), which violates assumption A3, but the Riccati form
(eq. 7) holds.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from supple.reports.figures.style import PALETTE, SHADE, new_figure
from supple.tracks.linear import balanced_init, follow, forgetting, random_regression

from .drawing import (
    SIMULATION,
    THEORY,
    TIME,
    draw_curves,
    draw_legend,
    legend_entries,
    shades,
    style_axes,
    write_letter,
)
from .runs import descend, difference

TASKS = 4
N_IN, N_HIDDEN, N_OUT = 5, 10, 6
ENTRIES = "#5f4b8b"  # of the network function: none of the tasks' colours
THIN = {**SIMULATION, "linewidth": 2.0}


def numbers(seed: int = 0, learning_rate: float = 0.005) -> dict[str, Any]:
    """Compute the numbers of the figure.

    `simulated_function` and `theory_function` are (tasks, T, N_o). `simulated_losses` and `theory_losses` are (task
    trained, T, task tested). `least_losses`, (tasks,), are those of the best linear map. `forgetting`, (tasks − 1,), is
    the increase of each earlier task's loss while the last task was trained, simulated and in closed form (D.1, after
    convergence). learning_rate: η.
    """
    rng = np.random.default_rng(seed)
    tasks = [random_regression(N_IN, N_OUT, samples=25, rng=rng) for _ in range(TASKS)]
    start = balanced_init(0.0, N_IN, N_HIDDEN, N_OUT, scale=1e-4, rng=rng)
    simulated, descended = [], start
    for task in tasks:
        times, w1, w2 = descend(*descended, task.sigma_yx, 100.0, learning_rate, 100)
        simulated.append(w2 @ w1)
        descended = w1[-1], w2[-1]
    theory, functions = follow(*start, tasks, times), np.stack(simulated)
    losses, theory_losses = (np.stack([task.loss(each) for task in tasks], axis=-1) for each in (functions, theory))
    return {
        "learning_rate": learning_rate,
        "times": times,
        "simulated_function": functions[..., 0],
        "theory_function": theory[..., 0],
        "simulated_losses": losses,
        "theory_losses": theory_losses,
        "least_losses": np.array([task.least_loss for task in tasks]),
        "forgetting": losses[-1, -1, :-1] - losses[-2, -1, :-1],
        "forgetting_closed_form": np.array([forgetting(tasks, i, TASKS - 2, TASKS - 1) for i in range(TASKS - 1)]),
        "difference": max(difference(functions, theory), difference(losses, theory_losses)),
    }


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Return the figure: the network function and the loss on every task, over all tasks."""
    figure = new_figure(5.6)
    write_letter(figure, "A", "four random regressions in turn, from small weights")
    function, losses = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1.15))
    times = np.asarray(numbers["times"])
    # above what the best linear map leaves: 0 is learned
    least = np.asarray(numbers["least_losses"])
    simulated, theory = (np.asarray(numbers[f"{name}_losses"]) - least for name in ("simulated", "theory"))
    count = len(simulated)
    for task, (entries, dots) in enumerate(zip(numbers["simulated_function"], numbers["theory_function"], strict=True)):
        start = task * times[-1]
        draw_curves(function, start + times, entries, dots, shades(ENTRIES, len(entries[0])))
        for tested, colour in enumerate(PALETTE[:count]):
            style = SIMULATION if tested == task else THIN
            losses.plot(start + times, simulated[task, :, tested], color=colour, zorder=2, **style)
        losses.plot(start + times, theory[task], zorder=3, **THEORY)
        if task % 2:
            for axes in (function, losses):
                axes.axvspan(start, start + times[-1], color=SHADE, zorder=0, linewidth=0)
        function.annotate(
            f"learns task {task + 1}", (start + times[-1] / 2, 1.0), (0, 3), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="center", va="bottom", fontsize=10, fontweight="bold", color=PALETTE[task],
        )  # fmt: skip
    function.set_xlim(0, count * times[-1])
    losses.set_ylim(0, None)
    style_axes(function, "", "entries of $W_2W_1$")
    style_axes(losses, TIME, "excess loss of every task\n(bold: the one it learns)")
    names = [
        Line2D([], [], color=colour, label=f"task {i + 1}", **SIMULATION) for i, colour in enumerate(PALETTE[:count])
    ]
    draw_legend(figure, [*names, *legend_entries()])
    return figure
