"""Figure 13: how a network transfers a new feature of one item to the others depends on λ.

A. An 8-8-8 network has learned the semantic hierarchy. A new row of W₂ learns a new feature for the goldfish alone,
with all other weights frozen. Then the output for the other items is read. B. Generalisation loss on the untrained
items over λ. C. The new feature of each item for several λ. Both trainings use gradient descent. The theory is W₁ᵀW₁ at
t → ∞ (Theorem C.3) and the shortest row that learns the item (eqs. 186, 187).

The paper does not define the right answer for the untrained items. Here it is the feature in proportion to the
similarity of their targets to the goldfish's, yᵢᵀyⱼ/‖yᵢ‖² (`hierarchy_feature`), which is the answer for λ → ∞. The
loss then decreases with λ everywhere, as in the paper, but this follows from that choice. With S̃ in place of S̃² in
the similarity, λ = 0 would be perfect.

The paper (D.3) gives only λ ∈ [−10, 10] and the hierarchy of Figure 4. Chosen here: starts with σ = 0.1 (Algorithm 1),
η = 0.01, 20 τ of training, then 30 τ for the new row, which starts with standard deviation 1e-4. Its random part
remains in directions that the item does not reach, and is largest at λ = −10, where hidden units are large. At λ = 0 a
square network can learn only tasks whose determinant has the same sign as its own (see `make_learnable` in runs.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from supple.reports.figures.style import BASELINE, FAINT, INK, PALETTE, new_figure
from supple.tracks.linear import (
    balanced_init,
    converged_quadrants,
    generalisation_loss,
    hierarchy_feature,
    new_feature,
    semantic_hierarchy,
)
from supple.tracks.linear.tasks import ITEMS
from supple.tracks.linear.weights import Array

from .drawing import (
    draw_curves,
    draw_legend,
    draw_panels,
    lambda_title,
    legend_entries,
    split_figure,
    style_axes,
    wide_lambda_colour,
)
from .runs import Weights, descend, difference, make_learnable, stack

TRAINED = ITEMS.index("goldfish")
LAMBDAS = tuple(range(-10, 11))
SHOWN = (-10, -2, 0, 2, 10)  # of panel C
NEW = PALETTE[3]
DOT: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 6}
EXPECTED: dict[str, Any] = {"linestyle": "", "marker": "_", "markersize": 18, "markeredgewidth": 2, "color": INK}


def numbers(seed: int = 0, learning_rate: float = 0.01) -> dict[str, Any]:
    """Compute the numbers of the figure.

    `simulated_loss` and `theory_loss` are (`lambdas`,). `simulated` and `theory` are the feature of each item,
    (`shown`, items), and `expected` is (items,). `difference` is the largest difference of the feature, whose value for
    the trained item is 1.

    Args:
        seed: Of all random numbers.
        learning_rate: η of both trainings.
    """
    rng = np.random.default_rng(seed)
    task = semantic_hierarchy()
    starts = learnable_starts(task.sigma_yx, LAMBDAS, rng)
    _, learned, _ = descend(*starts, task.sigma_yx, 20.0, learning_rate)
    hidden = learned[-1] @ task.x  # (λ, N_h, items)
    trained, row = hidden[..., TRAINED], rng.normal(0.0, 1e-4, (len(LAMBDAS), len(ITEMS)))  # the new row of W₂
    for _ in range(round(30.0 / learning_rate)):  # gradient descent on ½(w·h − 1)² for the trained item
        row = row + learning_rate * (1 - (row * trained).sum(-1, keepdims=True)) * trained
    simulated = np.einsum("lh,lhp->lp", row, hidden)
    theory = np.stack([new_feature(converged_quadrants(task.sigma_yx, lam).w1tw1, task.x, TRAINED) for lam in LAMBDAS])
    expected = hierarchy_feature(task, TRAINED)
    shown = [LAMBDAS.index(lam) for lam in SHOWN]
    return {
        "items": ITEMS,
        "trained": TRAINED,
        "lambdas": LAMBDAS,
        "simulated_loss": generalisation_loss(simulated, expected, TRAINED),
        "theory_loss": generalisation_loss(theory, expected, TRAINED),
        "shown": SHOWN,
        "simulated": simulated[shown],
        "theory": theory[shown],
        "expected": expected,
        "difference": difference(simulated, theory),
    }


def learnable_starts(sigma_yx: Array, lambdas: Sequence[float], rng: np.random.Generator) -> Weights:
    """Return starts of Algorithm 1 with σ = 0.1 that can learn a square task, (N, N): (λ, N, N), (λ, N, N)."""
    size = len(sigma_yx)
    starts = [balanced_init(lam, size, size, size, scale=0.1, rng=rng) for lam in lambdas]
    return stack([make_learnable(*start, sigma_yx) for start in starts])


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Return the figure: the hierarchy, the loss on untrained items, the feature of every item."""
    figure = new_figure(4.0)
    answer = Line2D([], [], label="the hierarchy's own answer", **{**EXPECTED, "markersize": 12})
    draw_legend(figure, [*legend_entries(), answer])
    draw_panels(
        split_figure(figure, 1, 3, width_ratios=(1.15, 0.9, 1.25)),
        numbers,
        ("a new feature of one item", _draw_hierarchy),
        ("untrained items, over λ", _draw_loss),
        ("the new feature of every item", _draw_feature),
    )
    return figure


def _draw_hierarchy(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    """Draw the tree over the items, and mark those with the new feature."""
    axes = figure.subplots()
    axes.set_axis_off()
    items = numbers["items"]
    places, height = np.arange(len(items), dtype=float), 0.0
    while len(places) > 1:
        parents = places.reshape(-1, 2).mean(1)
        axes.plot([parents.repeat(2), places], [height + 1, height], color=FAINT, linewidth=1.4, zorder=1)
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


def _draw_loss(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    axes = figure.subplots()
    lambdas, loss = numbers["lambdas"], numbers["simulated_loss"]
    draw_curves(axes, lambdas, loss, numbers["theory_loss"], [FAINT])
    for lam in numbers["shown"]:
        axes.plot(lam, loss[lambdas.index(lam)], color=wide_lambda_colour(lam), zorder=4, clip_on=False, **DOT)
    axes.set_ylim(0, None)
    style_axes(axes, "λ", "generalisation loss")


def _draw_feature(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    axes = figure.subplots()
    places = np.arange(len(numbers["items"]))
    colours = [wide_lambda_colour(lam) for lam in numbers["shown"]]
    axes.plot(places, numbers["expected"], zorder=4, **EXPECTED)
    draw_curves(axes, places, np.transpose(numbers["simulated"]), np.transpose(numbers["theory"]), colours)
    names = [Line2D([], [], color=colour, linewidth=2.6) for colour in colours]
    titles = [lambda_title(lam) for lam in numbers["shown"]]
    axes.legend(names[::-1], titles[::-1], frameon=False, fontsize=9.5, loc="upper right", handlelength=1.4)
    axes.set_xticks(places, numbers["items"], rotation=45, ha="right", rotation_mode="anchor")
    axes.margins(x=0.07)
    style_axes(axes, "", "new feature $\\hat{y}_f$")
