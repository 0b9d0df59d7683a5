"""What the figures share: networks of several λ on one task, trained by gradient descent and followed by the theory."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..exact import Exact
from ..flow import gradient_descent, gradient_flow
from ..tasks import Task, random_regression
from ..weights import Array, balanced_factors, balanced_init, random_rotation

LAMBDAS = (-2.0, 0.0, 2.0)
Weights = tuple[Array, Array]  # W₁ (N_h, N_i), W₂ (N_o, N_h)
DIGITS = 6  # of the numbers that are written down; differences are taken before


@dataclass(frozen=True)
class Runs:
    """times: (T,) in units of τ. simulated, theory: QQᵀ of every network, (networks, T, n, n), n = N_i + N_o."""

    times: Array
    simulated: Array
    theory: Array


def regression_starts(
    task: Task, n_hidden: int, lambdas: Sequence[float], scale: float, zero: float | None, rng: np.random.Generator
) -> list[Weights]:
    """Return the paper's starts (E.3–E.7): the product is Σyx of another random regression,
    split into λ-balanced layers.

    scale: standard deviation of that regression's targets. zero: that of the weights where λ = 0, which start small
    instead; None: they start as the others do. All can learn the task: see `learnable`."""
    n_out, n_in = task.sigma_yx.shape
    function = random_regression(n_in, n_out, task.samples, scale, rng).sigma_yx
    rotation = random_rotation(n_hidden, rng)
    starts = [
        balanced_init(0.0, n_in, n_hidden, n_out, zero, rng)
        if zero is not None and lam == 0
        else balanced_factors(function, n_hidden, lam, rotation)
        for lam in lambdas
    ]
    return [learnable(*start, task.sigma_yx) for start in starts]


def learnable(first: Array, second: Array, sigma_yx: Array) -> Weights:
    """Return the weights, (N_h, N_i) and (N_o, N_h), of a square network with a sign changed where
    it could not learn Σyx.

    Gradient flow at λ = 0 keeps the rank of W₂W₁, and with it the sign of its determinant: every second random start
    would end on a saddle, the task's smallest singular value unlearned. There the first output's weights are turned,
    which λ-balance does not see. (With λ ≠ 0 a singular value can pass through 0, as in reversal learning; those are
    turned alike, so that λ is all that differs.)
    """
    square = first.shape == second.shape == sigma_yx.shape
    turned = second.copy()
    if square and np.linalg.slogdet(second @ first)[0] * np.linalg.slogdet(sigma_yx)[0] < 0:
        turned[0] *= -1
    return first, turned


def qq(first: Array, second: Array) -> Array:
    """Return QQᵀ of eq. 3, (…, n, n), of weights (…, N_h, N_i) and (…, N_o, N_h)."""
    q = np.concatenate([first.mT, second], axis=-2)
    return q @ q.mT


def train(sigma_yx: Array, starts: Sequence[Weights], end: float, learning_rate: float, points: int = 125) -> Runs:
    """Train every network by gradient descent until time `end` (in τ = 1/learning_rate steps), and by the exact
    solution at the same `points` + 1 times."""
    first, second = (np.stack(layer) for layer in zip(*starts, strict=True))
    every = max(1, round(end / learning_rate / points))
    w1, w2 = gradient_descent(first, second, sigma_yx, every * points, learning_rate, every)
    times = np.linspace(0.0, learning_rate * every * points, points + 1)
    theory = np.stack([Exact(*start, sigma_yx).qq(times) for start in starts])
    return Runs(times, qq(w1, w2).swapaxes(0, 1), theory)


def flow_difference(sigma_yx: Array, starts: Sequence[Weights], runs: Runs) -> float:
    """Return the largest relative difference of the theory from the integrated gradient flow."""
    flows = np.stack([qq(*gradient_flow(*start, sigma_yx, runs.times)) for start in starts])
    return difference(flows, runs.theory)


def difference(simulated: Array, theory: Array) -> float:
    """Return the largest difference of one network's curves, relative to the theory's largest value there.

    simulated, theory: (networks, …)."""
    axes = tuple(range(1, theory.ndim))
    error, size = np.abs(simulated - theory).max(axes), np.abs(theory).max(axes)
    return float((error / size).max())


def upper(matrix: Array) -> Array:
    """Return the entries on and above the diagonal of symmetric matrices, (…, n (n + 1)/2)."""
    return matrix[(..., *np.triu_indices(matrix.shape[-1]))]


def plain(values: ArrayLike) -> list[Any]:
    """Return nested lists of floats for JSON, to 6 significant digits."""
    values = np.asarray(values, float)
    with np.errstate(divide="ignore"):
        size = np.where(values == 0, 0.0, np.floor(np.log10(np.abs(values))))
    unit = 10.0 ** (DIGITS - 1 - size)
    rounded: list[Any] = (np.round(values * unit) / unit).tolist()
    return rounded


def floats(values: Iterable[float]) -> list[float]:
    return [float(value) for value in values]
