"""Figure 3: singular values of the network function while it learns, from λ = −2, 0 and 2.

At λ = 0 they rise one after the other along sigmoids, the largest first (rich); at λ = ±2 all at once (lazy), and the
function does not see the sign. A 3-3-3 network learns a random regression; simulated by gradient descent, with the
closed curves of Theorem 5.1.

Paper (E.5): targets of σ = √12, five examples, η = 0.0002, weights of σ = 0.0009 for λ = 0, as here. For λ = ±2 it
starts from the Σyx of another regression, which is not aligned with the task; here all three start task-aligned, as the
theorem asks, and from one function, s(0) = 0.0009², so that λ is all that differs.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ....experiments.report.style import FAINT, new_figure, tidy
from ..singular_values import singular_values
from ..tasks import random_regression
from ..weights import aligned_init
from .drawing import TIME, both, key, labels, lambda_colour, lambda_title, legend, shades
from .runs import LAMBDAS, difference, flow_difference, plain, train

SIZE = 3
WEIGHT = 0.0009


def numbers(seed: int = 0, learning_rate: float = 2e-4, end: float = 12.0) -> dict[str, Any]:
    """Compute the figure's numbers. learning_rate: η. end: of the training, in units of τ = 1/η steps.

    `simulated` and `theory`: (λ, T, N_h), by SVD of the trained network and by Theorem 5.1. `targets`: s̃, (N_h,).
    `difference`: of these, relative to the largest singular value; `difference_flow`: of QQᵀ of exact solution and
    gradient flow.
    """
    rng = np.random.default_rng(seed)
    task = random_regression(SIZE, SIZE, samples=5, scale=12**0.5, rng=rng)
    starts = [aligned_init(task.sigma_yx, WEIGHT**2, lam, rng) for lam in LAMBDAS]
    runs = train(task.sigma_yx, starts, end, learning_rate)
    targets = np.linalg.svd(task.sigma_yx, compute_uv=False)
    simulated = np.asarray(np.linalg.svd(runs.simulated[..., SIZE:, :SIZE], compute_uv=False), float)
    theory = np.stack([singular_values(runs.times[:, None], targets, WEIGHT**2, lam) for lam in LAMBDAS])
    return {
        "sizes": [SIZE] * 3,
        "lambdas": list(LAMBDAS),
        "learning_rate": learning_rate,
        "start": WEIGHT**2,
        "targets": plain(targets),
        "times": plain(runs.times),
        "simulated": plain(simulated),
        "theory": plain(theory),
        "difference": difference(simulated, theory),
        "difference_flow": flow_difference(task.sigma_yx, starts, runs),
    }


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Return the figure of these numbers: a panel for each λ; hairlines are the task's singular values."""
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
