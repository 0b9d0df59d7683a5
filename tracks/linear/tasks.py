"""Tasks for linear networks: whitened inputs, and targets that a linear map fits more or less well."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from .weights import Array, Random

ITEMS = ("goldfish", "salmon", "canary", "robin", "kelp", "spirulina", "rose", "daisy")
FEATURES = ("grows", "animal or plant", "fish or bird", "alga or flower", "which fish", "which bird", "which alga",
            "which flower")  # fmt: skip
WHITE = 1e-9  # how far Σxx may be from I


@dataclass(frozen=True)
class LinearTask:
    """A task with P examples: inputs x (N_i, P), whitened (x·xᵀ/P = I), and targets y (N_o, P).

    Raises ValueError if the inputs are not whitened."""

    x: Array
    y: Array

    def __post_init__(self) -> None:
        if not (error := np.abs(self.x @ self.x.T / self.samples - np.eye(len(self.x))).max()) <= WHITE:
            raise ValueError(f"the inputs are not whitened: x·xᵀ/P differs from I by {error:.1e}")

    @property
    def samples(self) -> int:
        """The number of examples, P."""
        return int(self.x.shape[1])

    @cached_property
    def sigma_yx(self) -> Array:
        """y·xᵀ/P, (N_o, N_i): the linear map with the smallest loss."""
        return self.y @ self.x.T / self.samples

    @cached_property
    def least_loss(self) -> float:
        """The loss of the best linear map: ½Tr Σyy − ½‖Σyx‖²_F, the constant c of D.1."""
        # the difference itself can round to below 0
        return float(np.square(self.y - self.sigma_yx @ self.x).sum()) / (2 * self.samples)

    def excess_loss(self, function: ArrayLike) -> Array:
        """Return ½‖W₂W₁ − Σyx‖²_F ≥ 0, the loss above the smallest possible one, (…), of maps (…, N_o, N_i)."""
        return np.square(np.asarray(function, float) - self.sigma_yx).sum((-2, -1)) / 2

    def loss(self, function: ArrayLike) -> Array:
        """Return ½⟨‖W₂W₁x − y‖²⟩ ≥ 0, the mean loss over the examples, (…), of maps (…, N_o, N_i)."""
        return self.excess_loss(function) + self.least_loss


def whiten(x: Array) -> Array:
    """Return inputs (N_i, P), transformed linearly so that x·xᵀ/P = I.

    Raises ValueError if they span fewer than N_i dimensions."""
    size, samples = x.shape
    left, values, right = np.linalg.svd(x, full_matrices=False)
    if samples < size or values[-1] <= 1e-10 * values[0]:
        raise ValueError(f"{samples} inputs of {size} dimensions cannot be whitened: they span fewer")
    return np.sqrt(samples) * left @ right


def random_regression(
    n_in: int, n_out: int, samples: int, scale: float | None = None, rng: Random = None
) -> LinearTask:
    """Return the task of whitened Gaussian inputs with independent Gaussian targets (E.2.1).

    Args:
        n_in: N_i.
        n_out: N_o.
        samples: P ≥ n_in.
        scale: The standard deviation of the targets, by default 1/√N_o as in the paper.
        rng: A generator, a seed, or None for a new generator.

    Raises ValueError for fewer samples.
    """
    rng = np.random.default_rng(rng)
    x = whiten(rng.normal(size=(n_in, samples)))
    return LinearTask(x, rng.normal(0.0, n_out**-0.5 if scale is None else scale, (n_out, samples)))


def semantic_hierarchy(perturbation: float = 0.1) -> LinearTask:
    """Return the task of eight items at the leaves of a tree: N_i = N_o = P = 8 (E.2.2).

    The rows are features: one that all items share, and one for each fork of the tree, which is 1 for the items in its
    left branch, −1 in its right branch, and 0 for all others. The singular values of Σyx are √8, √8, 2, 2, √2 (four
    times), divided by √8. perturbation: item i (from 1) is multiplied by 1 + perturbation/i (eq. 189). This makes the
    singular values different, so that the singular vectors are unique.

    The paper writes X = I/8, which is not whitened. Whitened one-hot inputs are √8·I, which is used here.
    """
    items = len(ITEMS)
    rows = [np.ones(items)]
    for width in (8, 4, 2):
        for start in range(0, items, width):
            row = np.zeros(items)
            row[start : start + width // 2], row[start + width // 2 : start + width] = 1.0, -1.0
            rows.append(row)
    y = np.stack(rows) * (1 + perturbation / np.arange(1, items + 1))
    return LinearTask(np.sqrt(items) * np.eye(items), y)


def reversal(task: LinearTask) -> LinearTask:
    """Return the task with the sign of its largest singular direction reversed: ũ_1 → −ũ_1 (D.2).

    Raises ValueError if the two largest singular values are equal, so that there is no largest direction."""
    left, values, right = np.linalg.svd(task.sigma_yx, full_matrices=False)
    if (values[1:2] > (1 - 1e-12) * values[0]).any():
        raise ValueError("the two largest singular values are equal: there is no one direction to reverse")
    # what no linear map can fit stays as it was
    return replace(task, y=task.y + ((left[:, :1] * values[0] * -2) @ right[:1]) @ task.x)


def scale_targets(task: LinearTask, factor: float = 2.0) -> LinearTask:
    """Return the task with all targets multiplied by a factor."""
    return replace(task, y=factor * task.y)


def add_feature(task: LinearTask, feature: int, item: int, value: float = 1.0) -> LinearTask:
    """Return the task in which one example has one more feature (the first task of D.4): y[feature, item] ← value.

    Args:
        task: The task, which stays as it is.
        feature: The row of y, from 0.
        item: The column of y, from 0.
        value: The new target.
    """
    y = task.y.copy()
    y[feature, item] = value
    return replace(task, y=y)
