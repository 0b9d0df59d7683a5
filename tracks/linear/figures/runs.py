"""Runs for the figures: networks with several λ on one task, trained by gradient descent, and their exact solutions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.tracks.linear.exact import Exact
from supple.tracks.linear.flow import gradient_descent, gradient_flow
from supple.tracks.linear.tasks import LinearTask, random_regression
from supple.tracks.linear.weights import Array, balanced_factors, balanced_init, random_rotation

LAMBDAS = (-2.0, 0.0, 2.0)
SIZES = (3, 2, 2)  # of the network of Figures 1 and 2
Weights = tuple[Array, Array]  # W₁ (N_h, N_i), W₂ (N_o, N_h)
DIGITS = 6  # of the numbers that are written down; differences are taken before


@dataclass(frozen=True)
class Runs:
    """The runs of a figure.

    Attributes:
        times: (T,), in units of τ.
        simulated, theory: QQᵀ of every network, (networks, T, n, n), n = N_i + N_o.
    """

    times: Array
    simulated: Array
    theory: Array


def regression_starts(
    task: LinearTask,
    n_hidden: int,
    lambdas: Sequence[float],
    scale: float,
    zero: float | None,
    rng: np.random.Generator,
) -> list[Weights]:
    """Return the starts of the paper (E.3–E.7): the Σyx of another random regression, factored into λ-balanced layers.

    Args:
        scale: The standard deviation of the targets of that regression.
        zero: The standard deviation of the weights for λ = 0, which start small. None: they start as the others.

    All starts can learn the task (see `make_learnable`).
    """
    n_out, n_in = task.sigma_yx.shape
    function = random_regression(n_in, n_out, task.samples, scale, rng).sigma_yx
    rotation = random_rotation(n_hidden, rng)
    starts = [
        balanced_init(0.0, n_in, n_hidden, n_out, zero, rng)
        if zero is not None and lam == 0
        else balanced_factors(function, n_hidden, lam, rotation)
        for lam in lambdas
    ]
    return [make_learnable(*start, task.sigma_yx) for start in starts]


def make_learnable(first: Array, second: Array, sigma_yx: Array) -> Weights:
    """Return the weights, (N_h, N_i) and (N_o, N_h), of a square network, changed if it could not learn Σyx.

    Gradient flow at λ = 0 conserves the rank of W₂W₁ and therefore the sign of its determinant. Half of all random
    starts would converge to a saddle, with the smallest singular value of the task unlearned. In these, the sign of the
    first output's weights is changed, which does not change λ. (With λ ≠ 0 a singular value can pass through 0, as in
    reversal learning. The same starts are changed there, so that runs differ only in λ.)
    """
    square = first.shape == second.shape == sigma_yx.shape
    turned = second.copy()
    if square and np.linalg.slogdet(second @ first)[0] * np.linalg.slogdet(sigma_yx)[0] < 0:
        turned[0] *= -1
    return first, turned


def qq(first: Array, second: Array) -> Array:
    """Return QQᵀ of eq. 3, (…, n, n), from weights (…, N_h, N_i) and (…, N_o, N_h)."""
    q = np.concatenate([first.mT, second], axis=-2)
    return q @ q.mT


def train(sigma_yx: Array, starts: Sequence[Weights], end: float, learning_rate: float, points: int = 125) -> Runs:
    """Train every network by gradient descent until time `end`, and compute the exact solution at the same times.

    Args:
        sigma_yx: (N_o, N_i).
        starts: The weights (W₁, W₂) of each network.
        end: The length of training, in units of τ = 1/learning_rate steps.
        learning_rate: η.
        points: The number of times, besides 0.
    """
    first, second = (np.stack(layer) for layer in zip(*starts, strict=True))
    every = max(1, round(end / learning_rate / points))
    w1, w2 = gradient_descent(first, second, sigma_yx, every * points, learning_rate, every)
    times = np.linspace(0.0, learning_rate * every * points, points + 1)
    theory = np.stack([Exact(*start, sigma_yx).qq(times) for start in starts])
    return Runs(times, qq(w1, w2).swapaxes(0, 1), theory)


def train_on_regression(
    rng: np.random.Generator, end: float, learning_rate: float
) -> tuple[LinearTask, list[Weights], Runs]:
    """Return the random regression of Figures 1 and 2 (E.3), the starts for each of LAMBDAS, and their runs."""
    n_in, n_hidden, n_out = SIZES
    task = random_regression(n_in, n_out, samples=10, scale=10**0.5, rng=rng)
    starts = regression_starts(task, n_hidden, LAMBDAS, 1.0, 1e-5, rng)
    return task, starts, train(task.sigma_yx, starts, end, learning_rate)


def flow_difference(sigma_yx: Array, starts: Sequence[Weights], runs: Runs) -> float:
    """Return the largest relative difference between the theory and the integrated gradient flow."""
    flows = np.stack([qq(*gradient_flow(*start, sigma_yx, runs.times)) for start in starts])
    return difference(flows, runs.theory)


def difference(simulated: Array, theory: Array) -> float:
    """Return the largest difference of one network's curves, relative to the theory's largest value.

    simulated, theory: (networks, …)."""
    axes = tuple(range(1, theory.ndim))
    error, size = np.abs(simulated - theory).max(axes), np.abs(theory).max(axes)
    return float((error / size).max())


def upper_entries(matrix: Array) -> Array:
    """Return the entries on and above the diagonal of symmetric matrices, (…, n (n + 1)/2)."""
    return matrix[(..., *np.triu_indices(matrix.shape[-1]))]


def to_lists(values: ArrayLike) -> list[Any]:
    """Return nested lists of floats for JSON, rounded to 6 significant digits."""
    values = np.asarray(values, float)
    with np.errstate(divide="ignore"):
        size = np.where(values == 0, 0.0, np.floor(np.log10(np.abs(values))))
    unit = 10.0 ** (DIGITS - 1 - size)
    return (np.round(values * unit) / unit).tolist()
