"""Figure 2: the exact solution agrees with training in all quantities.

Loss, network function W₂W₁, W₁ᵀW₁, W₂W₂ᵀ and entries of the NTK (rows) for a 3-2-2 network that learns a random
regression from λ = −2, 0 and 2 (columns): gradient descent, and the exact solution QQᵀ(t).

The task and the starts are those of Figure 1 (E.4 has the settings of E.3), and identical for the same seed. The
caption calls the weights of λ = 0 large, but E.4 gives σ = 1e-5, which is used here. Of the NTK for the ten examples,
(20, 20), the block of the first two is shown, as (output, example) × (output, example).
"""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from supple.reports.figures.style import FAINT, new_figure
from supple.tracks.linear import LinearTask, ntk, quadrants
from supple.tracks.linear.weights import Array

from .drawing import draw_learning, draw_legend, legend_entries, title_lambdas
from .runs import difference, train_on_regression, upper_entries

EXAMPLES = 2
ROWS = {
    "loss": "loss",
    "function": "function\n$W_2W_1$",
    "w1tw1": "input weights\n$W_1^TW_1$",
    "w2w2t": "output weights\n$W_2W_2^T$",
    "ntk": "tangent kernel\nentries",
}


def numbers(seed: int = 0, learning_rate: float = 2e-4) -> dict[str, Any]:
    """Compute the numbers of the figure. learning_rate: η.

    `simulated` and `theory` map each row to (λ, T, curves). `difference` is the largest difference between theory and
    gradient descent in any row, relative to its largest value.
    """
    _, task, descended, solved, shared = train_on_regression(seed, learning_rate)
    simulated, theory = rows(descended, task), rows(solved, task)
    most = max(difference(simulated[name], theory[name]) for name in ROWS)
    return shared | {"least_loss": task.least_loss, "simulated": simulated, "theory": theory, "difference": most}


def rows(qq: Array, task: LinearTask) -> dict[str, Array]:
    """Return the curves of each row, (…, curves), from QQᵀ (…, n, n)."""
    w1tw1, function, w2w2t = quadrants(qq, len(task.x))
    return {
        "loss": task.loss(function)[..., None],
        "function": function.reshape(*function.shape[:-2], -1),
        "w1tw1": upper_entries(w1tw1),
        "w2w2t": upper_entries(w2w2t),
        "ntk": upper_entries(ntk(w1tw1, w2w2t, task.x[:, :EXAMPLES])),
    }


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Return the figure, with one column for each λ and one row for each quantity."""
    figure = new_figure(8.6)
    grid = figure.subplots(len(ROWS), len(numbers["lambdas"]), sharex=True, sharey="row")
    for row, (name, label) in zip(grid, ROWS.items(), strict=True):
        draw_learning(row, numbers, numbers["simulated"][name], numbers["theory"][name], label)
    for axes in grid.flat:
        axes.label_outer()
        axes.margins(y=0.1)
    for axes in grid[0]:
        axes.axhline(numbers["least_loss"], color=FAINT, linewidth=0.8, zorder=1)
    title_lambdas(grid[0], numbers["lambdas"])
    grid[-1][0].xaxis.set_major_locator(MaxNLocator(5, integer=True))
    figure.align_ylabels(grid[:, 0])
    draw_legend(figure, legend_entries())
    return figure
