"""The exact solution for a sequence of tasks: training, forgetting, time to learn (Dominé et al., Appendix D.1, D.2).

Each task begins with the final weights of the task before it. QQᵀ determines these weights up to a rotation of the
hidden units. This rotation changes neither λ nor any later QQᵀ, so the whole sequence has a closed form. Reversal
learning needs no extra code: with aligned weights it is `singular_values` with a negative start. This corrects eqs.
180–185, which have S_λ⁻¹ in place of I, lack the term −λ·B·C, and converge to s̃_λ instead of s̃.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from .exact import Exact
from .tasks import LinearTask
from .weights import Array

ROUNDS, POINTS = 10, 65  # each round narrows the time 64-fold: 60 bits, more than a float64 has


def follow(
    first: ArrayLike, second: ArrayLike, tasks: Sequence[LinearTask], times: ArrayLike, tau: float = 1.0
) -> Array:
    """Return W₂W₁ of the exact solution for λ-balanced weights over K tasks of the same sizes, (K, T, N_o, N_i).

    Args:
        first: W₁, (N_h, N_i). N_h is any size that λ allows.
        second: W₂, (N_o, N_h).
        tasks: At least one, in the order of learning.
        times: (T,), ascending, measured from the start of each task. Each task ends at the last one.
        tau: The time constant τ > 0.

    Raises ValueError as `Exact` does.
    """
    (n_hidden, n_in), functions = np.shape(first), []
    for task in tasks:
        factors = Exact(first, second, task.sigma_yx, tau).factor(times)
        functions.append(factors[:, n_in:] @ factors[:, :n_in].mT)
        end = np.pad(factors[-1], ((0, 0), (0, n_hidden - factors.shape[2])))  # with units that nothing passes through
        first, second = end[:n_in].T, end[n_in:]
    return np.stack(functions)


def forgetting(tasks: Sequence[LinearTask], i: int, j: int, k: int) -> float:
    """Return 𝓕_i(T_j, T_k) = ½(‖Σ_k − Σ_i‖² − ‖Σ_j − Σ_i‖²), the forgetting of a task (D.1).

    It does not depend on λ, and is negative if the loss falls.

    Args:
        tasks: The sequence, of which every task is learned to convergence.
        i: The task whose loss increases by this number.
        j: The task from whose end the increase is measured.
        k: The task to whose end it is measured.
    """
    return float(tasks[i].loss(tasks[k].sigma_yx) - tasks[i].loss(tasks[j].sigma_yx))


def time_to_converge(exact: Exact, sigma_yx: Array, threshold: float) -> float:
    """Return the time, in the unit of tau, after which ½‖W₂W₁ − Σyx‖² ≤ threshold.

    It is inf if the network converges to a saddle instead. Gradient descent with learning rate η needs about time/(η·τ)
    steps. The loss never increases under gradient flow, so there is one crossing. It is bracketed and then narrowed.

    threshold: > 0, otherwise ValueError. A threshold below the rounding error, about 1e-30·‖Σyx‖², is never reached.
    """

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
