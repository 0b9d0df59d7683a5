"""Figure 4: the layer in which the task is represented, and the effect of noise.

A. Σyx = Ũ·S̃·Ṽᵀ of the semantic hierarchy, and the similarity of its items, ṼS̃Ṽᵀ, and of its features, ŨS̃Ũᵀ (the
caption exchanges U and V). B, C. After training from λ = −2, 0 and 2, by gradient descent and in theory (Theorem C.3):
the similarity of items in the hidden layer, RSM_I = XᵀW₁ᵀW₁X (eq. 4), and that of features in W₂W₂ᵀ. At λ = 0 both
layers represent the task. At λ < 0 the first is close to a multiple of the identity, and at λ > 0 the second. RSM_O =
Yᵀ(W₂W₂ᵀ)⁺Y is computed but not drawn: it has the inverse of W₂W₂ᵀ between targets, and equals RSM_I when Y = W₂W₁X. D.
From large Gaussian weights: no structure in either. E. The loss that noise adds to converged networks. With noise in
the inputs it does not depend on λ. With noise in the weights it is smallest at λ = 0 (for N_i = N_o). Both are sampled,
and in closed form.

Settings of the paper (E.6): 8-8-8, η = 0.001, weights with σ = 1e-5 for λ = 0, Σyx of a random regression with σ = 1
for λ = ±2, weights with σ = 1 for D. For E: 4-4-4, λ = −5, −4, …, 5, σ = 0, 0.5 and 1. Here η = 0.005, which changes
the end of training by O(η), and one sign is changed in starts that would converge to a saddle (see runs.py;
half of those with λ = 0). The paper does not give the regression of E. Here it has targets with σ = √10 and ten
examples, as in Figure 1, and its networks start from another regression with σ = 1.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from supple.reports.figures.style import FAINT, INK, new_figure
from supple.tracks.linear import (
    LinearTask,
    Quadrants,
    converged_parameter_noise_loss,
    converged_quadrants,
    gram,
    input_noise_loss,
    parameter_noise_loss,
    random_regression,
    rsm_input,
    rsm_output,
    semantic_hierarchy,
)
from supple.tracks.linear.tasks import FEATURES, ITEMS
from supple.tracks.linear.weights import Array

from .drawing import (
    THEORY,
    draw_legend,
    draw_matrix,
    lambda_colour,
    lambda_title,
    legend_entries,
    shades,
    split_figure,
    style_axes,
    write_letter,
)
from .runs import LAMBDAS, Weights, descend, difference, regression_starts, stack

NOISY_LAMBDAS = tuple(float(lam) for lam in range(-5, 6))
STDS = (0.0, 0.5, 1.0)
DRAWN = {
    "rsm_input": "input $RSM_I$\n(items)",
    "w2w2t": "output $W_2W_2^T$\n(features)",
}


def numbers(seed: int = 0, learning_rate: float = 5e-3, draws: int = 4000) -> dict[str, Any]:
    """Compute the numbers of the figure.

    `simulated` and `theory` map each row to (λ, 8, 8), and `large` maps it to (8, 8). `noise` has, for inputs and
    weights, `simulated` and `theory`, (σ, λ), the increase of the loss. `difference` is the largest relative difference
    in B and C, `difference_noise_exact` that in panel E with the expectation over the noise at the trained weights, and
    `difference_noise` that with the sampled one.

    Args:
        seed: Of all random numbers.
        learning_rate: η.
        draws: The number of noise samples.
    """
    rng = np.random.default_rng(seed)
    task = semantic_hierarchy()
    left, values, right = _signed_svd(task.sigma_yx)
    starts = regression_starts(task, len(ITEMS), LAMBDAS, 1e-5, rng)
    simulated = _similarities(gram(*_train(task.sigma_yx, starts, learning_rate)), task)
    ends = [_similarities(converged_quadrants(task.sigma_yx, lam), task) for lam in LAMBDAS]
    theory = {name: np.stack([end[name] for end in ends]) for name in simulated}
    large = (rng.normal(size=(len(ITEMS),) * 2), rng.normal(size=(len(ITEMS),) * 2))
    unbalanced = _similarities(gram(*_train(task.sigma_yx, [large], learning_rate)), task)
    return {
        "items": ITEMS,
        "features": FEATURES,
        "sigma_yx": task.sigma_yx,
        "u": left,
        "s": values,
        "v": right.T,
        "task_items": (right.T * values) @ right,
        "task_features": (left * values) @ left.T,
        "lambdas": LAMBDAS,
        "learning_rate": learning_rate,
        "simulated": simulated,
        "theory": theory,
        "large": {name: maps[0] for name, maps in unbalanced.items()},
        "difference": max(difference(simulated[name], theory[name]) for name in theory),
    } | _noise_numbers(learning_rate, draws, rng)


def _noise_numbers(learning_rate: float, draws: int, rng: np.random.Generator) -> dict[str, Any]:
    """Compute the numbers of panel E. The noise is the same for every λ."""
    task = random_regression(4, 4, samples=10, scale=10**0.5, rng=rng)
    w1, w2 = _train(task.sigma_yx, regression_starts(task, 4, NOISY_LAMBDAS, None, rng), learning_rate)
    of_inputs, of_first, of_second = (
        rng.normal(size=(draws, 1, *shape)) for shape in (task.x.shape, w1.shape[-2:], w2.shape[-2:])
    )
    function = w2 @ w1
    sampled = np.empty((2, len(STDS), len(NOISY_LAMBDAS)))
    for row, std in enumerate(STDS):
        noisy = function @ (task.x + std * of_inputs) - task.y  # (draws, λ, N_o, P)
        sampled[0, row] = np.square(noisy).sum((-2, -1)).mean(0) / (2 * task.samples)
        sampled[1, row] = task.loss((w2 + std * of_second) @ (w1 + std * of_first)).mean(0)
    sampled -= task.loss(function)
    stds = np.array(STDS)[:, None]
    exact = np.stack([input_noise_loss(function, stds), parameter_noise_loss(w1, w2, stds)])
    of_weights = converged_parameter_noise_loss(task.sigma_yx, np.array(NOISY_LAMBDAS), stds)
    theory = np.stack([np.broadcast_to(input_noise_loss(task.sigma_yx, stds), of_weights.shape), of_weights])
    return {
        "noise_lambdas": NOISY_LAMBDAS,
        "noise_stds": STDS,
        "noise": {name: {"simulated": sampled[i], "theory": theory[i]} for i, name in enumerate(("inputs", "weights"))},
        "difference_noise_exact": difference(exact, theory),
        "difference_noise": difference(sampled, theory),
    }


def _train(sigma_yx: Array, starts: list[Weights], learning_rate: float) -> Weights:
    """Return the weights after gradient descent until t = 150 τ, (starts, N_h, N_i) and (starts, N_o, N_h)."""
    _, w1, w2 = descend(*stack(starts), sigma_yx, 150.0, learning_rate)
    return w1[-1], w2[-1]


def _similarities(learnt: Quadrants, task: LinearTask) -> dict[str, Array]:
    return {
        "rsm_input": rsm_input(learnt.w1tw1, task.x),
        "w2w2t": learnt.w2w2t,
        "rsm_output": rsm_output(learnt.w2w2t, task.y),
    }


def _signed_svd(matrix: Array) -> tuple[Array, Array, Array]:
    """Return Ũ, s̃, Ṽᵀ, with signs that make the first large entry of each right singular vector positive."""
    left, values, right = np.linalg.svd(matrix)
    size = np.abs(right)
    first = (size > 0.5 * size.max(1, keepdims=True)).argmax(1)
    signs = np.sign(right[np.arange(len(right)), first])
    return left * signs, values, right * signs[:, None]


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Return the figure. The number below each map is the value at which its colours end."""
    figure = new_figure(8.4)
    task, learnt, robust = split_figure(figure, 3, 1, height_ratios=(1.3, 1.9, 1.3))
    _draw_task(task, numbers)
    simulated, theory, large = split_figure(learnt, 1, 3, width_ratios=(3.42, 3, 1.15))
    _draw_maps(simulated, "B", "simulation", numbers["simulated"], numbers["lambdas"])
    _draw_maps(theory, "C", "theory", numbers["theory"], numbers["lambdas"])
    _draw_maps(large, "D", "large weights", {name: [numbers["large"][name]] for name in DRAWN}, ())
    _draw_added_loss(robust, numbers)
    return figure


def _draw_task(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    write_letter(figure, "A", "semantic hierarchy: features of items, their singular vectors, and similarities")
    panels = figure.subplots(1, 6, width_ratios=(1.25, 1, 1, 1, 1, 1))
    maps = (
        (numbers["sigma_yx"], r"$\tilde{\Sigma}^{yx}$"),
        (numbers["u"], r"$\tilde{U}$"),
        (np.diag(numbers["s"]), r"$\tilde{S}$"),
        (np.transpose(numbers["v"]), r"$\tilde{V}^T$"),
        (numbers["task_items"], r"$\tilde{V}\tilde{S}\tilde{V}^T$ (items)"),
        (numbers["task_features"], r"$\tilde{U}\tilde{S}\tilde{U}^T$ (features)"),
    )
    for axes, (matrix, title) in zip(panels, maps, strict=True):
        draw_matrix(axes, matrix, title)
    panels[0].set_yticks(range(8), numbers["features"], fontsize=7)
    panels[0].set_xticks(range(8), numbers["items"], fontsize=7, rotation=90)
    panels[0].tick_params(length=0, colors="#555555")
    panels[0].set_xlabel("")


def _draw_maps(figure: SubFigure, name: str, title: str, maps: Mapping[str, Any], lambdas: Sequence[float]) -> None:
    """Draw one row for each kind of similarity, named in panel B, and one column for each λ, or one without any."""
    write_letter(figure, name, title)
    grid = figure.subplots(len(DRAWN), len(lambdas) or 1, squeeze=False)
    for row, (kind, label) in zip(grid, DRAWN.items(), strict=True):
        for axes, matrix in zip(row, maps[kind], strict=True):
            draw_matrix(axes, matrix)
        if name == "B":
            row[0].set_ylabel(label, fontsize=9, color=INK)
    for axes, lam in zip(grid[0], lambdas, strict=False):
        axes.set_title(lambda_title(lam), fontsize=10, color=lambda_colour(lam), fontweight="bold")
    if not lambdas:
        grid[0, 0].set_title("not balanced", fontsize=9.5, color=INK)


def _draw_added_loss(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    write_letter(figure, "E", "loss added by noise after training")
    stds = numbers["noise_stds"]
    # one colour for each strength of noise: from faint to ink
    colours = [FAINT, *reversed(shades("#5b3a8e", len(stds) - 1))]
    for axes, (name, losses) in zip(figure.subplots(1, 2), numbers["noise"].items(), strict=True):
        for colour, simulated, theory in zip(colours, losses["simulated"], losses["theory"], strict=True):
            axes.plot(numbers["noise_lambdas"], simulated, "o", color=colour, markersize=5)
            axes.plot(numbers["noise_lambdas"], theory, **THEORY)
        style_axes(axes, "λ", "added loss", f"noise in {name}")
    handles = [
        Line2D([], [], linestyle="", marker="o", color=colour, label=f"σ = {std:g}")
        for colour, std in zip(colours, stds, strict=True)
    ]
    draw_legend(figure, [*handles, *legend_entries(marker=True)])
