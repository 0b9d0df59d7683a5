"""Runs for the figures: networks with several λ on one task, trained by gradient descent, and their exact solutions."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from supple.tracks.linear import (
    Exact,
    LinearTask,
    balanced_factors,
    balanced_init,
    gradient_descent,
    random_regression,
)
from supple.tracks.linear.weights import Array, random_rotation

LAMBDAS = (-2.0, 0.0, 2.0)
SIZES = (3, 2, 2)  # of the network of Figures 1 and 2
Weights = tuple[Array, Array]  # W₁ (N_h, N_i), W₂ (N_o, N_h)
# QQᵀ by gradient descent and in theory, (λ, T, n, n), n = N_i + N_o; and the numbers that such figures have in common
Runs = tuple[Array, Array, dict[str, Any]]
DIGITS = 6  # of the numbers that are written down; differences are taken before


def regression_starts(
    task: LinearTask,
    n_hidden: int,
    lambdas: Sequence[float],
    zero: float | None,
    rng: np.random.Generator,
) -> list[Weights]:
    """Return the starts of the paper (E.3–E.7): the Σyx of another random regression, factored into λ-balanced layers.

    Its targets have standard deviation 1. All starts can learn the task (see `make_learnable`).

    zero: The standard deviation of the weights for λ = 0, which start small. None: they start as the others.
    """
    n_out, n_in = task.sigma_yx.shape
    function = random_regression(n_in, n_out, task.samples, 1.0, rng).sigma_yx
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


def stack(starts: Sequence[Weights]) -> Weights:
    """Return the weights of several networks as one array for each layer, (networks, …)."""
    first, second = (np.stack(layer) for layer in zip(*starts, strict=True))
    return first, second


def descend(
    first: Array, second: Array, sigma_yx: Array, end: float, learning_rate: float, points: int = 1
) -> tuple[Array, Array, Array]:
    """Train networks by gradient descent. Return the times, (1 + points,), and W₁ and W₂ at these, (times, …).

    Args:
        first: W₁ at time 0, (…, N_h, N_i).
        second: W₂ at time 0, (…, N_o, N_h).
        sigma_yx: (N_o, N_i).
        end: The length of training, in units of τ = 1/learning_rate steps.
        learning_rate: η.
        points: The number of times, besides 0.
    """
    every = max(1, round(end / learning_rate / points))
    times = learning_rate * every * np.arange(points + 1, dtype=np.float64)
    return times, *gradient_descent(first, second, sigma_yx, every * points, learning_rate, every)


def train(sigma_yx: Array, starts: Sequence[Weights], end: float, learning_rate: float) -> Runs:
    """Train the network of each of LAMBDAS until time `end`, by gradient descent and in theory."""
    times, w1, w2 = descend(*stack(starts), sigma_yx, end, learning_rate, 125)
    theory = np.stack([Exact(*start, sigma_yx).qq(times) for start in starts])
    numbers = {
        "sizes": [w1.shape[-1], *w2.shape[:-3:-1]],
        "lambdas": LAMBDAS,
        "learning_rate": learning_rate,
        "times": times,
    }
    return qq(w1, w2).swapaxes(0, 1), theory, numbers


def train_on_regression(seed: int, learning_rate: float) -> tuple[np.random.Generator, LinearTask, *Runs]:
    """Return the generator and the random regression of Figures 1 and 2 (E.3), and `train` on it until t = 20 τ."""
    rng = np.random.default_rng(seed)
    n_in, n_hidden, n_out = SIZES
    task = random_regression(n_in, n_out, samples=10, scale=10**0.5, rng=rng)
    starts = regression_starts(task, n_hidden, LAMBDAS, 1e-5, rng)
    return rng, task, *train(task.sigma_yx, starts, 20.0, learning_rate)


def difference(simulated: Array, theory: Array) -> float:
    """Return the largest difference of one network's curves, relative to the theory's largest value.

    simulated, theory: (networks, …)."""
    axes = tuple(range(1, theory.ndim))
    error, size = np.abs(simulated - theory).max(axes), np.abs(theory).max(axes)
    return float((error / size).max())


def upper_entries(matrix: Array) -> Array:
    """Return the entries on and above the diagonal of symmetric matrices, (…, n (n + 1)/2)."""
    return matrix[(..., *np.triu_indices(matrix.shape[-1]))]


def for_json(values: Any) -> Any:
    """Return the numbers of a figure for JSON, in which every array is a nested list of 6 significant digits.

    None stands for NaN and ±∞."""
    if isinstance(values, dict):
        return {name: for_json(value) for name, value in values.items()}
    if not isinstance(values, np.ndarray):
        return values
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(values == 0, 0.0, np.floor(np.log10(np.abs(values))))
        unit = 10.0 ** (DIGITS - 1 - size)
        rounded = (np.round(values * unit) / unit).astype(object)
    rounded[~np.isfinite(values)] = None
    return rounded.tolist()
