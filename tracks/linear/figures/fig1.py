"""Figure 1: the layers' relative scale λ decides how a linear network learns. Common initialisations have such a λ.

B. Outputs ŷ = W₂W₁x of a 3-2-2 network for four of ten examples while it learns a random regression, from λ = −2, 0 and
2: gradient descent, and the exact solution. C. W₂ᵀW₂ − W₁W₁ᵀ for LeCun's initialisation of a 40-120-250 network, and
its expectation (N_o/N_h − 1)·I (Theorem A.3).

The settings are those of the paper (E.3): targets with σ = √10, ten examples, η = 0.0002, weights with σ = 1e-5 for λ =
0, and for λ = ±2 the Σyx of a random regression with σ = 1, factored into λ-balanced layers. Training takes 100,000
steps, until t = 20 τ.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure, SubFigure

from supple.reports.figures.style import new_figure
from supple.tracks.linear.weights import balance, expected_balance, random_init

from .drawing import (
    draw_bar,
    draw_learning,
    draw_legend,
    draw_matrix,
    draw_network,
    draw_panels,
    lambda_colour,
    lambda_title,
    legend_entries,
    split_figure,
)
from .runs import SIZES, difference, train_on_regression

LECUN = (40, 120, 250)
EXAMPLES = 4
THIN, THICK = 0.9, 3.4  # lines of the layer with the smaller and the larger weights, in points


def numbers(seed: int = 0, learning_rate: float = 2e-4) -> dict[str, Any]:
    """Compute the numbers of panels B and C. learning_rate: η.

    `simulated` and `theory` have shape (λ, T, outputs of the examples). `difference` is that between theory and
    gradient descent, whose error is O(η), over QQᵀ and outputs, relative to the largest value. `balance` is (N_h, N_h).
    """
    n_in = SIZES[0]
    rng, task, descended, solved, shared = train_on_regression(seed, learning_rate)
    simulated, theory = (
        (qq[..., n_in:, :n_in] @ task.x[:, :EXAMPLES]).reshape(*qq.shape[:2], -1) for qq in (descended, solved)
    )
    lecun = balance(*random_init(*LECUN, "lecun", rng))
    return shared | {
        "simulated": simulated,
        "theory": theory,
        "difference": max(difference(simulated, theory), difference(descended, solved)),
        "lecun_sizes": LECUN,
        "balance": lecun,
        "expected_lambda": expected_balance(*LECUN, "lecun"),
        "measured_lambda": float(np.diag(lecun).mean()),
    }


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Return the figure: schematics, outputs during training, LeCun's initialisation."""
    figure = new_figure(5.6)
    learning, initial = split_figure(figure, 1, 2, width_ratios=(2.55, 1))
    above, below = split_figure(learning, 2, 1, height_ratios=(1, 1.5))
    draw_panels(
        (above, below, initial),
        numbers,
        ("relative scale of the layers:  $W_2^T W_2 - W_1 W_1^T = λI$", _draw_schematics),
        ("outputs while learning", _draw_outputs),
        ("LeCun initialisation", _draw_lecun),
    )
    return figure


def _draw_schematics(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    for axes, lam in zip(figure.subplots(1, 3), numbers["lambdas"], strict=True):
        widths = (THICK, THIN) if lam < 0 else (THIN, THICK) if lam > 0 else (THIN + 0.7,) * 2
        draw_network(axes, numbers["sizes"], lambda_title(lam), lambda_colour(lam), widths)


def _draw_outputs(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    draw_legend(figure, legend_entries())
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    draw_learning(panels, numbers, numbers["simulated"], numbers["theory"], r"output $\hat{y}$")


def _draw_lecun(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    measured, expected = np.asarray(numbers["balance"]), numbers["expected_lambda"]
    n_in, n_hidden, n_out = numbers["lecun_sizes"]
    above, below = figure.subplots(2, 1)
    limit = 1.25 * abs(expected)
    draw_matrix(above, measured, f"$W_2^T W_2 - W_1 W_1^T$,  {n_in}-{n_hidden}-{n_out}", limit,
         f"mean of the diagonal {numbers['measured_lambda']:.2f}")  # fmt: skip
    image = draw_matrix(below, expected * np.eye(len(measured)), "$(N_o/N_h - 1)\\,I$", limit, f"λ = {expected:.2f}")
    draw_bar(figure, image, [above, below], shrink=0.55, pad=0.03, aspect=25)
