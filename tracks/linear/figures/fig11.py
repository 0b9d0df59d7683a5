"""Figure 11: a network that learns one task after another forgets, exactly as the closed form says.

A. From small zero-balanced weights a 5-10-6 network learns four random regressions in turn. Top: entries of the network
function W₂W₁ (its first column: what each output makes of the first input). Bottom: the loss of every task, also while
another one is trained. Gradient descent, and the exact solution carried on from task to task.

Settings of the paper (D.1): N_i, N_h, N_o = 5, 10, 6, 25 examples, targets of standard deviation 1/√N_o, σ = 1e-4, as
here, and η = 0.05. Gradient descent follows the flow and keeps λ up to O(η), which shows where a network leaves a
saddle: with η = 0.05 it is off by 2.5 % of the largest entry for seed 0, up to 15 % for others; here η = 0.005, and it
is 0.3 %, up to 3 % (the integrated flow agrees to 1e-9). The paper gives no length: 100 τ (20,000 steps) a task.
Zero-balanced exactly, by Algorithm 1; the weights' product then has standard deviation √N_h·σ². N_h is above
max(N_i, N_o) here, against assumption A3; the Riccati form (eq. 7) holds all the same.
"""

from typing import Any

import numpy as np

from ..continual import follow, forgetting
from ..flow import gradient_descent, gradient_flow
from ..tasks import random_regression
from ..weights import Array, balanced_init
from .runs import difference, plain

TASKS = 4
N_IN, N_HIDDEN, N_OUT = 5, 10, 6


def numbers(seed: int = 0, duration: float = 100.0, learning_rate: float = 0.005, points: int = 100) -> dict[str, Any]:
    """duration: of a task, in τ. points: times a task at which curves are kept, besides its start.

    `simulated_function` and `theory_function`: (tasks, T, N_o). `simulated_losses` and `theory_losses`: (task trained,
    T, task tested), `least_losses`: (tasks,) of the best linear map. `forgetting`: rise of each earlier task's loss
    over the one trained last, (tasks − 1,), simulated and in closed form (D.1, after convergence).
    """
    rng = np.random.default_rng(seed)
    tasks = [random_regression(N_IN, N_OUT, samples=25, rng=rng) for _ in range(TASKS)]
    start = balanced_init(0.0, N_IN, N_HIDDEN, N_OUT, scale=1e-4, rng=rng)
    every = max(1, round(duration / learning_rate / points))
    times = learning_rate * every * np.arange(points + 1)

    theory = follow(*start, tasks, times)
    simulated, flow = np.empty_like(theory.function), np.empty_like(theory.function)
    descended, flowed = start, start
    for i, task in enumerate(tasks):
        w1, w2 = gradient_descent(*descended, task.sigma_yx, every * points, learning_rate, every)
        simulated[i], descended = w2 @ w1, (w1[-1], w2[-1])
        w1, w2 = gradient_flow(*flowed, task.sigma_yx, times)
        flow[i], flowed = w2 @ w1, (w1[-1], w2[-1])
    losses = np.stack([task.loss(simulated) for task in tasks], axis=-1)
    return {
        "learning_rate": learning_rate,
        "times": plain(times),
        "simulated_function": plain(simulated[..., 0]),
        "theory_function": plain(theory.function[..., 0]),
        "simulated_losses": plain(losses),
        "theory_losses": plain(theory.losses),
        "least_losses": plain([task.least_loss for task in tasks]),
        "forgetting": plain(_last_rise(losses)),
        "forgetting_closed_form": plain([forgetting(tasks, i, TASKS - 2, TASKS - 1) for i in range(TASKS - 1)]),
        "difference": max(difference(simulated, theory.function), difference(losses, theory.losses)),
        "difference_flow": difference(flow, theory.function),
    }


def _last_rise(losses: Array) -> Array:
    """Of each earlier task's loss, from the end of the last but one task to the end of the last: (tasks − 1,)."""
    rise: Array = losses[-1, -1, :-1] - losses[-2, -1, :-1]
    return rise
