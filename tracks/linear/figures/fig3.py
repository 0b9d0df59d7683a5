"""Figure 3: singular values of the network function during learning, from λ = −2, 0 and 2.

At λ = 0 they rise one after the other along sigmoids, the largest first (rich). At λ = ±2 they rise together (lazy),
and the function does not depend on the sign. A 3-3-3 network learns a random regression. It is simulated by gradient
descent. The theory is that of Theorem 5.1.

Settings of the paper (E.5), used here: targets with σ = √12, five examples, η = 0.0002, weights with σ = 0.0009 for λ =
0. For λ = ±2 the paper starts from the Σyx of another regression, which is not aligned with the task. Here all three
start task-aligned, as the theorem requires, and from the same function, s(0) = 0.0009², so that they differ only in λ.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from supple.reports.figures.style import FAINT, new_figure
from supple.tracks.linear import aligned_init, random_regression, singular_values

from .drawing import draw_learning, draw_legend, legend_entries, title_lambdas
from .runs import LAMBDAS, difference, train

SIZE = 3
WEIGHT = 0.0009


def numbers(seed: int = 0, learning_rate: float = 2e-4) -> dict[str, Any]:
    """Compute the numbers of the figure. learning_rate: η.

    `simulated` and `theory` are (λ, T, N_h), by SVD of the trained network and by Theorem 5.1. `targets` is s̃, (N_h,).
    `difference` is the largest difference of the two, relative to the largest singular value.
    """
    rng = np.random.default_rng(seed)
    task = random_regression(SIZE, SIZE, samples=5, scale=12**0.5, rng=rng)
    starts = [aligned_init(task.sigma_yx, WEIGHT**2, lam, rng) for lam in LAMBDAS]
    descended, _, shared = train(task.sigma_yx, starts, 12.0, learning_rate)
    targets = np.linalg.svd(task.sigma_yx, compute_uv=False)
    simulated = np.asarray(np.linalg.svd(descended[..., SIZE:, :SIZE], compute_uv=False), float)
    theory = np.stack([singular_values(shared["times"][:, None], targets, WEIGHT**2, lam) for lam in LAMBDAS])
    return shared | {
        "start": WEIGHT**2,
        "targets": targets,
        "simulated": simulated,
        "theory": theory,
        "difference": difference(simulated, theory),
    }


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Return the figure, with one panel for each λ. Thin lines are the singular values of the task."""
    figure = new_figure(3.3)
    panels = figure.subplots(1, len(numbers["lambdas"]), sharex=True, sharey=True)
    for axes in panels:
        for target in numbers["targets"]:
            axes.axhline(target, color=FAINT, linewidth=0.8, zorder=1)
    draw_learning(panels, numbers, numbers["simulated"], numbers["theory"], r"singular values $s_\alpha$ of $W_2W_1$")
    title_lambdas(panels, numbers["lambdas"])
    draw_legend(figure, legend_entries())
    return figure
