"""One task after another, exactly: training, forgetting, and the time to learn (Dominé et al., Appendix D.1, D.2).

Each task begins from the weights the last one ended with. QQᵀ gives them up to a rotation of the hidden units, which
changes neither λ nor any later QQᵀ, so the whole course is closed-form. Reversal learning needs nothing of its own:
with aligned weights it is `singular_values` with a negative start, which corrects eqs. 180–185 (they have S_λ⁻¹ in
place of I, lack the term −λ·B·C, and end at s̃_λ in place of s̃).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .exact import Exact
from .tasks import Task
from .weights import Array

ROUNDS, POINTS = 10, 65  # each round narrows the time 64-fold: 60 bits, more than a float64 has


@dataclass(frozen=True)
class Course:
    """Training on K tasks in turn, at T times since the start of each.

    function: W₂W₁, (K, T, N_o, N_i). losses: (K, T, K), of [task trained, time, task tested], as `Task.loss`.
    W1, W2: the weights at the end of the last task, up to a rotation of the hidden units.
    """

    function: Array
    losses: Array
    W1: Array
    W2: Array


def follow(first: ArrayLike, second: ArrayLike, tasks: Sequence[Task], times: ArrayLike, tau: float = 1.0) -> Course:
    """Return the exact course of λ-balanced weights W₁ (N_h, N_i), W₂ (N_o, N_h) through tasks of the same sizes.

    times: (T,), ascending, since the start of each task; a task ends at the last of them. Any N_h that λ allows.
    Raises ValueError as `Exact`, without a task, and for times out of order.
    """
    ascending = np.atleast_1d(np.asarray(times, float))
    if not tasks:
        raise ValueError("there is no task to follow")
    if not len(ascending) or (np.diff(ascending) < 0).any():
        raise ValueError("times must be ascending, and at least one: a task ends at the last of them")
    W1, W2 = np.asarray(first, float), np.asarray(second, float)
    functions = []
    for task in tasks:
        n_hidden, n_in = W1.shape
        factors = Exact(W1, W2, task.sigma_yx, tau).factor(ascending)
        functions.append(factors[:, n_in:] @ factors[:, :n_in].mT)
        end = np.zeros((factors.shape[1], n_hidden))  # `factor` leaves out units that nothing passes through
        end[:, : factors.shape[2]] = factors[-1]
        W1, W2 = end[:n_in].T, end[n_in:]
    function = np.stack(functions)
    return Course(function, np.stack([task.loss(function) for task in tasks], axis=-1), W1, W2)


def forgetting(tasks: Sequence[Task], i: int, j: int, k: int) -> float:
    """Return 𝓕_i(T_j, T_k) = ½(‖Σ_k − Σ_i‖² − ‖Σ_j − Σ_i‖²): rise of the loss of task i from the end of task j to the
    end of task k, each learnt to convergence (D.1). λ has no part in it. Negative where the loss falls."""
    return float(tasks[i].loss(tasks[k].sigma_yx) - tasks[i].loss(tasks[j].sigma_yx))


def time_to_converge(exact: Exact, sigma_yx: Array, threshold: float) -> float:
    """Return the time, in units as tau's, from which on ½‖W₂W₁ − Σyx‖² ≤ threshold;
    inf where that never happens (a saddle).

    Gradient descent with learning rate η needs about time/(η·τ) steps. The loss never rises under gradient flow, so
    one crossing is bracketed, then narrowed. threshold: > 0, else ValueError; below rounding, about 1e-30·‖Σyx‖², it
    is never reached.
    """
    if not threshold > 0:
        raise ValueError(f"threshold must be > 0, got {threshold}")

    def reached(times: Array) -> Array:
        return np.asarray(np.square(exact.function(times) - sigma_yx).sum((-2, -1)) / 2 <= threshold)

    limit = exact.limit()[exact.n_in :, : exact.n_in]
    if np.square(limit - sigma_yx).sum() / 2 > threshold:
        return math.inf
    doublings = np.asarray(exact.tau * 2.0 ** np.arange(-30, 60), float)
    doublings[0] = 0.0
    done = reached(doublings)
    if done[0] or not done.any():
        return 0.0 if done[0] else math.inf
    bracket: Array = doublings[done.argmax() - 1 : done.argmax() + 1]
    for _ in range(ROUNDS):
        grid: Array = np.linspace(bracket[0], bracket[1], POINTS)
        first = max(int(reached(grid).argmax()), 1)
        bracket = grid[first - 1 : first + 1]
    return float(bracket[1])
