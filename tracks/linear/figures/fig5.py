"""Figure 5: with layers of unequal width, the sign of λ decides whether a network is rich or lazy.

Distance of the NTK from its initial value (E.7), for a funnel (4-2-2), a square (4-4-4) and an inverted funnel (2-2-4)
network that learn a random regression: B. after training, over λ ∈ [−9, 9]; C. over the time of training. The square
network is lazy for |λ| → ∞, the funnel only for λ → +∞, and the inverted funnel only for λ → −∞. In the opposite
direction, the funnels are lazy first and rich later (the delayed rich regime).

Settings of the paper (E.7): targets with σ = √3, ten examples, λ-balanced starts from a random regression with σ = 1,
eleven λ, η = 0.01. Here η = 0.02 and 50,000 steps, because the delayed phase takes about 9/s̃² units of time at |λ| =
9. In the square network, the distances for λ and −λ differ by the random orientation of the start relative to the task.
Their means agree. One sign is changed in its starts that would converge to a saddle at λ = 0 (see runs.py).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, SubFigure

from supple.reports.figures.style import PALETTE, new_figure
from supple.tracks.linear import Exact, Quadrants, gradient_descent, gram, ntk_distance, quadrants, random_regression

from .drawing import (
    DIVERGING,
    THEORY,
    TIME,
    draw_bar,
    draw_curves,
    draw_legend,
    draw_network,
    draw_panels,
    lambda_colour,
    legend_entries,
    split_figure,
    style_axes,
)
from .runs import regression_starts, stack

ARCHITECTURES = {"funnel": (4, 2, 2), "square": (4, 4, 4), "inverted funnel": (2, 2, 4)}
SIMULATED = tuple(float(lam) for lam in np.linspace(-9, 9, 11))
EVERY = 5  # steps of gradient descent from one look at the weights to the next
MORE = 5  # λ of the theory for each interval between two that are simulated
COLOURS = {"funnel": PALETTE[0], "square": PALETTE[2], "inverted funnel": PALETTE[3]}
DISTANCE = "kernel distance from start"


def numbers(seed: int = 0, learning_rate: float = 0.02, end: float = 1000.0, points: int = 70) -> dict[str, Any]:
    """Compute the numbers of the figure.

    `final` maps each architecture to `simulated` (11,) at the end and `theory` for t → ∞, at `theory_lambdas`. `course`
    maps it to `simulated` and `theory`, (11, T) at `times`. Distances are in [0, 1]. `difference` is the largest
    difference during training.

    Args:
        seed: Of all random numbers.
        learning_rate: η.
        end: The length of training, in units of τ = 1/η steps.
        points: The number of times, evenly spaced on a logarithmic axis.
    """
    rng = np.random.default_rng(seed)
    steps = round(end / learning_rate)
    kept = np.unique(np.geomspace(1, steps // EVERY, points).astype(int))
    times = EVERY * learning_rate * kept
    dense = np.linspace(-9, 9, MORE * (len(SIMULATED) - 1) + 1)
    final, course = {}, {}
    for name, (n_in, n_hidden, n_out) in ARCHITECTURES.items():
        task = random_regression(n_in, n_out, samples=10, scale=3**0.5, rng=rng)
        starts = regression_starts(task, n_hidden, tuple(dense), None, rng)
        exact = [(Exact(*start, task.sigma_yx), gram(*start)) for start in starts]
        limits = np.array([ntk_distance(quadrants(solution.limit(), n_in), start) for solution, start in exact])
        theory = np.stack(
            [ntk_distance(quadrants(solution.qq(times), n_in), start) for solution, start in exact[::MORE]]
        )
        trained = gram(*gradient_descent(*stack(starts[::MORE]), task.sigma_yx, steps, learning_rate, EVERY))
        start, later = (Quadrants(*(part[at] for part in trained)) for at in (0, kept))
        simulated = ntk_distance(later, start).T
        final[name] = {"simulated": simulated[:, -1], "theory": limits}
        course[name] = {"simulated": simulated, "theory": theory}
    return {
        "architectures": ARCHITECTURES,
        "lambdas": SIMULATED,
        "theory_lambdas": dense,
        "learning_rate": learning_rate,
        "times": times,
        "final": final,
        "course": course,
        "difference": max(float(np.abs(each["simulated"] - each["theory"]).max()) for each in course.values()),
    }


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Return the figure: architectures, distance over λ, distance over time."""
    figure = new_figure(6.6)
    above, below = split_figure(figure, 2, 1)
    schematics, final = split_figure(above, 1, 2, width_ratios=(1.15, 1))
    draw_panels(
        (schematics, final, below),
        numbers,
        ("architectures", _draw_schematics),
        ("after training", _draw_final),
        ("over training", _draw_course),
    )
    return figure


def _draw_schematics(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    for axes, (name, sizes) in zip(figure.subplots(1, 3), numbers["architectures"].items(), strict=True):
        draw_network(axes, sizes, f"{name}\n{'-'.join(map(str, sizes))}", COLOURS[name], (1.6, 1.6))
        axes.set_ylim(-2.9, 2.1)  # as large as the tallest


def _draw_final(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    axes = figure.subplots()
    for name, values in numbers["final"].items():
        axes.plot(numbers["lambdas"], values["simulated"], "o", color=COLOURS[name], markersize=5.5, zorder=2)
        axes.plot(numbers["theory_lambdas"], values["theory"], zorder=3, **THEORY)
    axes.set_xticks([-9, -6, -3, 0, 3, 6, 9])
    style_axes(axes, "λ", DISTANCE)
    draw_legend(figure, legend_entries(marker=True))


def _draw_course(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    most = max(map(abs, numbers["lambdas"]))
    colours = [lambda_colour(lam, most) for lam in numbers["lambdas"]]
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    for axes, (name, values) in zip(panels, numbers["course"].items(), strict=True):
        axes.set_title(name, fontsize=10, color=COLOURS[name], fontweight="bold")
        draw_curves(axes, numbers["times"], np.transpose(values["simulated"]), np.transpose(values["theory"]), colours)
        axes.set_xscale("log")
        axes.set_xlim(numbers["times"][0], numbers["times"][-1])
        style_axes(axes, TIME, DISTANCE if axes is panels[0] else "")
    draw_bar(figure, ScalarMappable(Normalize(-most, most), DIVERGING), panels, "λ", pad=0.015, aspect=22)
    draw_legend(figure, legend_entries())
