"""Figure 14: fine-tuning of networks that were re-balanced after pre-training.

8-8-8 networks learn the semantic hierarchy from λ_PT-balanced starts, are re-balanced to λ_FT or not (∅), and learn a
new task. A. Σyx of the hierarchy and of the new tasks: the feature that distinguishes the goldfish from the other fish,
given to the canary too; the first singular vector reversed; all singular values doubled. B. The share of the new task's
loss that is left after 0.5 τ, over λ_FT for several λ_PT, and for ∅. C. The loss over time, in pre-training from
several λ_PT and in fine-tuning from several λ_FT. Gradient descent, and the exact solution of both phases.

Networks are re-balanced by the toolkit's `rebalance_`. The paper (D.4) gives the tasks and |λ| ≤ 10, but neither
learning rate nor lengths. Chosen here: starts as in Figure 13, η = 0.005, 20 τ of pre-training.

Results: as in the paper, λ_FT = 0 is the slowest in all tasks, and larger |λ_FT| are faster (29 %, 37 % and 13 % of the
loss are left at λ_FT = 0, less than 0.01 % at ±10). A reversal stops at the saddle if λ_FT = 0. Besides:
- λ and −λ give the same results. With N_i = N_h = N_o, f = W₂W₁ of full rank and E = Σyx − f, the function obeys
  τ df/dt = √(ffᵀ + λ²/4)·E + E·√(fᵀf + λ²/4), in which λ occurs only as its square.
- Therefore ∅ is not just similar to λ_FT = λ_PT but identical, and after re-balancing, λ_PT and the rotation of the
  hidden units have no effect.
- Most of the gain is speed, which a larger learning rate would give as well: the largest stable one falls as
  1/√(λ² + 4s̃²). With the time scaled accordingly, 12 %, 13 % and 2 % are left at ±10, which is still less than at 0.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from supple.interventions import rebalance_
from supple.reports.figures.style import FAINT, INK, new_figure
from supple.tracks.linear import (
    Exact,
    LinearTask,
    add_feature,
    balanced_factors,
    reversal,
    scale_targets,
    semantic_hierarchy,
)
from supple.tracks.linear.tasks import FEATURES, ITEMS
from supple.tracks.linear.weights import Array

from .drawing import (
    THEORY,
    TIME,
    draw_legend,
    draw_matrix,
    draw_panels,
    legend_entries,
    split_figure,
    style_axes,
    wide_lambda_colour,
)
from .fig13 import learnable_starts
from .runs import descend

PRETRAINED = (-10, -5, 0, 5, 10)  # λ_PT; each is one of λ_FT too
FINETUNED = tuple(range(-10, 11))  # λ_FT
SHOWN = (-10, -2, 0, 2, 10)  # λ_FT of panel C
FROM = PRETRAINED.index(5)  # λ_PT of panel C
SIZE = len(ITEMS)
POINTS = 80  # times of a curve, besides 0
BUDGET = 0.5  # the length of fine-tuning in panel B, in τ; panel C goes to 4 τ
LEAST = 1e-4  # part of the first loss, below which curves leave panel C
RING: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 8, "markeredgewidth": 2.2}
LEFT = "part of the first loss"


def numbers(seed: int = 0, learning_rate: float = 0.005) -> dict[str, Any]:
    """Compute the numbers of the figure.

    All losses are shares of the loss at the start of their phase. `pretraining` and each of `tasks` have `sigma_yx`,
    `times`, and `curves` and `theory_curves`, (`pretrained` or `shown`, T). Tasks also have `left` and `theory`,
    (`pretrained`, `finetuned`), and `kept` without re-balancing, (`pretrained`,), whose theory is that of λ_FT = λ_PT.
    `moved` is the largest change of W₂W₁ by re-balancing. `difference` is the largest difference of losses between
    theory and gradient descent.

    Args:
        seed: Of all random numbers.
        learning_rate: η.
    """
    rng = np.random.default_rng(seed)
    old = semantic_hierarchy()
    starts = learnable_starts(old.sigma_yx, PRETRAINED, rng)
    times, firsts, seconds = descend(*starts, old.sigma_yx, 20.0, learning_rate, POINTS)
    exact = np.stack([Exact(*start, old.sigma_yx).function(times) for start in zip(*starts, strict=True)], axis=1)
    # each network re-balanced to each λ_FT, and last unchanged: (λ_PT, λ_FT + 1, …)
    first, second = (np.stack([layer[-1]] * (len(FINETUNED) + 1), axis=1) for layer in (firsts, seconds))
    for i, lam in enumerate(FINETUNED):
        rebalance_(torch.from_numpy(first[:, i]), torch.from_numpy(second[:, i]), lam)

    feature, owner, item = FEATURES.index("which fish"), ITEMS.index("goldfish"), ITEMS.index("canary")
    new = {
        "added feature": add_feature(old, feature, item, old.y[feature, owner]),
        "reversal": reversal(old),
        "scaled by 2": scale_targets(old),
    }
    before = _phase(old, times, seconds @ firsts, exact)
    tasks = {name: _finetune(first, second, exact[-1], task, learning_rate) for name, task in new.items()}
    pairs = [(phase["curves"], phase["theory_curves"]) for phase in (before, *tasks.values())]
    pairs += [(task["left"], task["theory"]) for task in tasks.values()]
    return {
        "learning_rate": learning_rate,
        "budget": BUDGET,
        "pretrained": PRETRAINED,
        "finetuned": FINETUNED,
        "shown": SHOWN,
        "from": PRETRAINED[FROM],
        "pretraining": before,
        "tasks": tasks,
        "moved": float(np.abs(second @ first - (second @ first)[:, -1:]).max()),
        "difference": max(float(np.abs(simulated - theory).max()) for simulated, theory in pairs),
    }


def remaining_loss(function: Array, task: LinearTask) -> Array:
    """Return the loss over time, (T, …), of functions (T, …, N_o, N_i), as shares of the first one."""
    losses = task.excess_loss(function)
    return losses / losses[0]


def _phase(task: LinearTask, times: Array, function: Array, exact: Array) -> dict[str, Array]:
    """Return the entries that pre-training and fine-tuning share, from W₂W₁ of networks, (T, networks, N_o, N_i)."""
    curves, theory_curves = (remaining_loss(each, task).T for each in (function, exact))
    return {"sigma_yx": task.sigma_yx, "times": times, "curves": curves, "theory_curves": theory_curves}


def _finetune(first: Array, second: Array, learned: Array, task: LinearTask, learning_rate: float) -> dict[str, Array]:
    """Return the entries of `numbers` for a task.

    first, second: (`pretrained`, `finetuned` + 1, SIZE, SIZE). learned: W₂W₁ after pre-training, in theory.
    """
    soon, w1, w2 = descend(first, second, task.sigma_yx, BUDGET, learning_rate)
    simulated = remaining_loss(w2 @ w1, task)[1]
    exact = [_exact_functions(function, FINETUNED, task, soon) for function in learned]
    shown = [FINETUNED.index(lam) for lam in SHOWN]
    times, w1, w2 = descend(first[FROM, shown], second[FROM, shown], task.sigma_yx, 4.0, learning_rate, POINTS)
    return _phase(task, times, w2 @ w1, _exact_functions(learned[FROM], SHOWN, task, times)) | {
        "left": simulated[:, :-1],
        "theory": np.stack([remaining_loss(functions, task)[1] for functions in exact]),
        "kept": simulated[:, -1],
    }


def _exact_functions(function: Array, lambdas: Sequence[float], task: LinearTask, times: Array) -> Array:
    """Return W₂W₁ of networks that start from this function and each λ, (T, λ, N_o, N_i)."""
    starts = [balanced_factors(function, SIZE, lam, np.eye(SIZE)) for lam in lambdas]
    return np.stack([Exact(*start, task.sigma_yx).function(times) for start in starts], axis=1)


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Return the figure: the tasks, the share of their loss that is left over λ_FT, and losses over time.

    There is a column for the hierarchy and one for each new task."""
    figure = new_figure(8.8)
    draw_legend(figure, legend_entries())
    draw_panels(
        split_figure(figure, 3, 1, height_ratios=(1.15, 1, 1.1)),
        numbers,
        (r"input–output correlation $\tilde{\Sigma}^{yx}$ of the tasks", _draw_tasks),
        (f"loss that is left after {numbers['budget']:g} τ, over $λ_{{FT}}$", _draw_remaining),
        (f"loss while training;  fine-tuning after $λ_{{PT}} = {numbers['from']:g}$", _draw_loss_curves),
    )
    return figure


def _draw_tasks(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    tasks = {"pre-training: hierarchy": numbers["pretraining"]}
    tasks |= {f"fine-tuning: {name}": task for name, task in numbers["tasks"].items()}
    limit = max(np.abs(task["sigma_yx"]).max() for task in tasks.values())
    panels = figure.subplots(1, len(tasks))
    for axes, (title, task) in zip(panels, tasks.items(), strict=True):
        draw_matrix(axes, task["sigma_yx"], "", float(limit), "items")
        axes.set_ylabel("features", fontsize=8, color="#777777", labelpad=2)
        axes.set_title(title, fontsize=10, color=INK, fontweight="bold")
    panels[0].set_xlabel(f"items      (colours end at ±{limit:.2g})", fontsize=8, color="#777777", labelpad=2)


def _draw_remaining(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    beside, *panels = figure.subplots(1, 1 + len(numbers["tasks"]))
    lambdas = numbers["pretrained"]
    for axes, task in zip(panels, numbers["tasks"].values(), strict=True):
        _draw_nested(axes, numbers["finetuned"], np.transpose(task["left"]), np.transpose(task["theory"]), lambdas)
        for lam, kept in zip(lambdas, task["kept"], strict=True):
            axes.plot(lam, kept, zorder=4, markerfacecolor="white", markeredgecolor=wide_lambda_colour(lam), **RING)
        axes.sharey(panels[0])
        style_axes(axes, "$λ_{FT}$", LEFT if axes is panels[0] else "")
    beside.set_axis_off()
    ring = Line2D([], [], label=r"not re-balanced (∅), at $λ_{PT}$", markerfacecolor="white", color=FAINT, **RING)
    beside.legend(handles=[*_lambda_entries(lambdas, "PT"), ring], frameon=False, fontsize=9.5, loc="center left")


def _draw_loss_curves(figure: SubFigure, numbers: Mapping[str, Any]) -> None:
    panels = figure.subplots(1, 1 + len(numbers["tasks"]), sharey=True)
    phases = (numbers["pretraining"], *numbers["tasks"].values())
    for i, (axes, phase) in enumerate(zip(panels, phases, strict=True)):
        lambdas, what = (numbers["shown"], "FT") if i else (numbers["pretrained"], "PT")
        times, curves = np.asarray(phase["times"]), np.transpose(phase["curves"])
        _draw_nested(axes, times, curves, np.transpose(phase["theory_curves"]), lambdas)
        if i < 2:
            place = "upper right" if i else (0.2, 0.03)  # free of curves
            axes.legend(handles=_lambda_entries(lambdas, what), frameon=False, fontsize=9, loc=place, handlelength=1.6)
        axes.set_xlim(0, 1.05 * times[(curves >= LEAST).any(1)].max())
        style_axes(axes, TIME, "" if i else LEFT)
    panels[0].set_ylim(LEAST, 1.6)


def _draw_nested(axes: Axes, x: ArrayLike, simulated: Any, theory: Any, lambdas: Sequence[float]) -> None:
    """Draw curves, (x, λ), that may coincide, on a logarithmic axis. Each is thinner than those below it."""
    for curve, lam, width in zip(simulated.T, lambdas, _widths(lambdas), strict=True):
        axes.plot(x, curve, color=wide_lambda_colour(lam), linewidth=width, solid_capstyle="round", zorder=2)
    axes.plot(x, theory, zorder=3, **THEORY)
    axes.set_yscale("log")


def _lambda_entries(lambdas: Sequence[float], what: str) -> list[Line2D]:
    return [
        Line2D([], [], color=wide_lambda_colour(lam), linewidth=width, label=f"$λ_{{{what}}} = {lam:g}$")
        for lam, width in zip(lambdas, _widths(lambdas), strict=True)
    ]


def _widths(lambdas: Sequence[float]) -> list[float]:
    return np.linspace(6.5, 1.8, len(lambdas)).tolist()
