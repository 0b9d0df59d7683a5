"""Figure 12: reversal learning is catastrophically slow at λ = 0, and only there.

A 4-4-4 network starts from the solution of a random regression at t → ∞. A. Steps of gradient descent until the excess
loss ½‖W₂W₁ − Σyx‖² is 1 % of ½‖Σyx‖², over λ, for the task with its first left singular vector reversed, and for
another random regression (five draws). B. The steps of the reversal for λ → 0. C. The reversed singular value, which
starts at −s̃.

At λ = 0 the exact solution converges to the saddle at 0, so its time is infinite (`None`). Near λ = 0 the time is
ln(1/|λ|)·τ/s̃ plus a constant, so every decade of |λ| costs the same number of steps. Gradient descent agrees with this
down to |λ| of about 1e-15, where rounding dominates. At λ = 0, rounding alone moves it away from the saddle, after
about as many steps.

A random task also has a saddle at λ = 0 if its determinant and that of the first task have opposite signs (fig13.py).
That affects only the smallest singular value, which is less than 1 % of the loss here. λ and −λ take the same time,
because N_i = N_h = N_o (fig14.py).

The paper gives only λ ∈ [−10, 10] and the two tasks (D.2). The sizes, ten examples, targets with standard deviation
1.5, η = 0.005 and the criterion of convergence were chosen here. The theory of the reversal is `transition` with a
negative start. That of the random tasks is `time_to_converge`, whose number of steps is t/(ητ), not rounded up.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, ScalarFormatter

from supple.reports.figures.style import FAINT, INK, PALETTE, new_figure
from supple.tracks.linear import (
    Exact,
    balanced_factors,
    gradient_descent,
    random_regression,
    reversal,
    singular_values,
    time_to_converge,
    transition,
)
from supple.tracks.linear.weights import Array, random_rotation

from .drawing import SIMULATION, THEORY, draw_curves, draw_legend, draw_panels, lambda_colour, split_figure, style_axes
from .runs import Weights, stack

SIZE, SAMPLES, TARGETS = 4, 10, 1.5  # of layers; examples; standard deviation of the targets
NEAR = (0.1, 0.25, 0.5, 0.75)
LAMBDAS = (*range(-10, 0), *(-lam for lam in NEAR[::-1]), 0.0, *NEAR, *range(1, 11))
TINY = (*(10.0**-k for k in range(17)), 0.0)
CURVES, CURVE_STEPS, CURVE_POINTS = (0.0, 1e-6, 0.01, 1.0, 10.0), 5000, 240
CONVERGED = 0.01  # of ½‖Σyx‖²
ROUNDING = 1e-14  # |λ| below which gradient descent in double precision no longer follows the theory
MOST_STEPS = 8000  # after which training stops, converged or not
REVERSAL, RANDOM = PALETTE[3], PALETTE[2]  # neither of them a colour of λ
DOT: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 5}
ABOVE: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9}
FLOOR = 1e-17  # where λ = 0 is drawn on a logarithmic axis
STEPS = "steps to convergence"


def numbers(seed: int = 0, learning_rate: float = 0.005, draws: int = 5) -> dict[str, Any]:
    """Compute the numbers of the figure.

    `reversal` and `tiny` have steps over their `lambdas`, and `random` has (draws, `lambdas`). Each has `simulated` and
    `theory`. `curves` has the reversed singular value, (its `lambdas`, T), at `steps`. `steps_a_decade` is ln 10/(η
    s̃). `difference` is the largest difference of steps, relative to the theory, for |λ| ≥ 1e-14.

    Args:
        seed: Of all random numbers.
        learning_rate: η.
        draws: The number of random tasks.
    """
    rng = np.random.default_rng(seed)
    known, *others = (random_regression(SIZE, SIZE, SAMPLES, TARGETS, rng) for _ in range(draws + 1))
    turned, rotation = reversal(known), random_rotation(SIZE, rng)
    left, values, right = np.linalg.svd(turned.sigma_yx)

    def start(lambdas: Sequence[float]) -> Weights:
        return stack([balanced_factors(known.sigma_yx, SIZE, lam, rotation) for lam in lambdas])

    def of_reversal(lambdas: Sequence[float]) -> dict[str, Array]:
        grid = np.arange(MOST_STEPS + 1)
        gone = transition(learning_rate * grid[:, None], values[0], -values[0], np.asarray(lambdas))
        # the loss is ½(2s̃)²(1 − γ)², and only this mode has any
        enough = 1 - np.sqrt(CONVERGED) * np.linalg.norm(values) / (2 * values[0])
        return {
            "simulated": descent_steps(*start(lambdas), turned.sigma_yx, learning_rate),
            "theory": np.array([np.interp(enough, curve, grid, right=np.nan) for curve in gone.T]),
        }

    wide, sigmas = start(LAMBDAS), [task.sigma_yx for task in others]
    times = [
        time_to_converge(Exact(w1, w2, sigma), sigma, CONVERGED * np.square(sigma).sum() / 2)
        for sigma in sigmas
        for w1, w2 in zip(*wide, strict=True)
    ]
    random = {
        "simulated": np.stack([descent_steps(*wide, sigma, learning_rate) for sigma in sigmas]),
        "theory": np.reshape(times, (draws, -1)) / learning_rate,
    }
    results = {"reversal": of_reversal(LAMBDAS), "random": random, "tiny": of_reversal(TINY)}
    over = {"reversal": LAMBDAS, "random": LAMBDAS, "tiny": TINY}
    w1, w2 = gradient_descent(*start(CURVES), turned.sigma_yx, CURVE_STEPS, learning_rate)
    steps = np.unique(np.geomspace(2, CURVE_STEPS, CURVE_POINTS).round().astype(int))
    simulated = np.einsum("o,tloi,i->lt", left[:, 0], w2[steps] @ w1[steps], right[0])
    theory = singular_values(learning_rate * steps, values[0], -values[0], np.array(CURVES)[:, None])
    return {
        "learning_rate": learning_rate,
        "most_steps": MOST_STEPS,
        "lambdas": list(map(float, LAMBDAS)),
        "tiny_lambdas": TINY,
        **results,
        "steps_a_decade": float(np.log(10) / (learning_rate * values[0])),
        "curves": {
            "lambdas": CURVES,
            "steps": steps.tolist(),
            "target": float(values[0]),
            "simulated": simulated,
            "theory": theory,
        },
        "difference": max(_relative_error(**results[name], lambdas=at) for name, at in over.items()),
    }


def descent_steps(first: Array, second: Array, sigma_yx: Array, learning_rate: float) -> Array:
    """Return the steps until each network has converged, or NaN if it has not.

    Args:
        first: W₁, (networks, N_h, N_i).
        second: W₂, (networks, N_o, N_h).
        sigma_yx: (N_o, N_i).
        learning_rate: η.
    """
    w1, w2 = gradient_descent(first, second, sigma_yx, MOST_STEPS, learning_rate)
    below = np.square(w2 @ w1 - sigma_yx).sum((-2, -1)) <= CONVERGED * np.square(sigma_yx).sum()  # (steps, networks)
    return np.where(below.any(0), below.argmax(0), np.nan)


def _relative_error(simulated: Array, theory: Array, lambdas: Sequence[float]) -> float:
    """Return the largest difference of steps, relative to the theory, where both converge above rounding."""
    kept = np.abs(lambdas) >= ROUNDING
    error: Array = np.abs(simulated - theory)[..., kept] / theory[..., kept]
    return float(error[np.isfinite(error)].max())


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Return the figure: steps over λ, steps for λ → 0, and the reversed singular value."""
    figure = new_figure(3.9)
    entries = [
        Line2D([], [], color=REVERSAL, label="reversal", **DOT),
        Line2D([], [], color=RANDOM, label="another random task (mean and range)", **SIMULATION),
        Line2D([], [], label="theory", **THEORY),
    ]
    draw_legend(figure, entries)
    draw_panels(
        split_figure(figure, 1, 3, width_ratios=(1.1, 1, 1.1)),
        numbers,
        ("over λ", _draw_over_lambda),
        ("towards λ = 0", _draw_towards_zero),
        ("the reversed direction", _draw_singular_value),
    )
    return figure


def _draw_over_lambda(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    axes = figure.subplots()
    lambdas = np.asarray(numbers["lambdas"])
    # what never converges (None) becomes NaN
    draws, expected = (np.array(numbers["random"][name], float) for name in ("simulated", "theory"))
    axes.fill_between(lambdas, draws.min(0), draws.max(0), color=RANDOM, alpha=0.18, linewidth=0)
    draw_curves(axes, lambdas, draws.mean(0), expected.mean(0), [RANDOM])
    axes.plot(lambdas, np.array(numbers["reversal"]["simulated"], float), color=REVERSAL, zorder=2.5, **DOT)
    # the theory's line goes on to the smallest |λ| of panel B
    tiny, spike = np.asarray(numbers["tiny_lambdas"]), np.array(numbers["tiny"]["theory"], float)
    near = (tiny > 0) & (tiny < lambdas[lambdas > 0].min())
    places = np.concatenate([lambdas, tiny[near], -tiny[near]])
    steps = np.concatenate([np.array(numbers["reversal"]["theory"], float), spike[near], spike[near]])
    order = np.argsort(places)
    axes.plot(places[order], steps[order], zorder=3, **THEORY)  # at λ = 0 it has a gap
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_minor_formatter(NullFormatter())
    style_axes(axes, "λ", STEPS)


def _draw_towards_zero(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    axes = figure.subplots()
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
    style_axes(axes, "λ", STEPS)


def _draw_singular_value(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    axes = figure.subplots()
    curves = numbers["curves"]
    steps, simulated = np.asarray(curves["steps"]), np.asarray(curves["simulated"])
    colours = [lambda_colour(0.5 * i) for i in range(len(simulated))]
    draw_curves(axes, steps, simulated.T, np.transpose(curves["theory"]), colours)
    axes.set_xscale("log")
    for lam, values, colour in zip(curves["lambdas"], simulated, colours, strict=True):
        learned = values > 0.8 * curves["target"]
        name = f"$10^{{{round(np.log10(lam))}}}$" if 0 < lam < 1 else f"{lam:g}"
        if learned.any():
            place = (steps[learned.argmax()], curves["target"])
            axes.annotate(name, place, (0, 6), ha="center", fontweight="bold", color=colour, **ABOVE)
    axes.annotate("λ =", (steps[0], curves["target"]), (0, 6), color=INK, **ABOVE)
    axes.margins(x=0.03)
    axes.set_ylim(None, 1.3 * curves["target"])
    style_axes(axes, "steps", "singular value")
