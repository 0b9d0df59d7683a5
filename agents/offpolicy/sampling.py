"""With what probabilities transitions of a replay memory are drawn: the setting `--replay-sampling`.

`recency` lets the probability of a transition fall linearly with its age, down to a floor:

    p(age) ∝ max(low, 1 − age / horizon)

The age is 0 for the newest row of each environment and grows by `num_envs` from one row to the one before, so that it
counts the transitions of the member. Rows without an action, such as the last frame of a truncated episode, count too,
and are redrawn. No tree is needed. Of the n rows of a ring, let the newest m lie above the floor, and let the weight
fall by d from one row to the next. The weights are the sum of

    low   for each of the n rows,    1 − low − d·(m − 1)   for each of the newest m,    d·(m − 1 − i)   for i < m

Numbers from the last term are distributed as the smaller one of two different uniform numbers below m. So each draw is
exact, and takes three random numbers whatever the size of the memory.

Source: Wu et al. 2026, "Sample Weight Decay", arXiv:2604.01913. `reservoir`: Vitter 1985 (see `reservoir.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supple.registry import Registry, bind, parse_call

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Uniform:
    """Draw from all transitions alike."""

    def draw(self, count: int, source: torch.Generator, start: int, bounds: Integers) -> Tensor:
        """Return numbers of rows of a member, (count,) int64, independent of one another.

        Args:
            count: How many.
            source: The member's generator.
            start: The number of the first row of its first ring. Those of a ring ascend with time.
            bounds: For each of its rings, the number after the one of its last row, (num_envs,).
        """
        return torch.randint(start, int(bounds[-1]), (count,), generator=source)


@dataclass(frozen=True)
class Recency:
    """Draw transitions linearly less often with age, down to a floor (Wu et al. 2026).

    Args:
        horizon: The age, in transitions of a member, at which the weight would be 0; at least 1.
        low: The smallest weight, in (0, 1]; that of the newest transition is 1.

    Raises:
        ValueError: A parameter is out of its range.
    """

    horizon: int = 80_000
    low: float = 0.1

    def __post_init__(self) -> None:
        if self.horizon < 1:
            raise ValueError(f"recency: horizon must be at least 1 transition, got {self.horizon}")
        if not 0.0 < self.low <= 1.0:
            raise ValueError(f"recency: low must lie in (0, 1], got {self.low}")

    def draw(self, count: int, source: torch.Generator, start: int, bounds: Integers) -> Tensor:
        """Return numbers of rows of a member, as `Uniform.draw` does."""
        rows = np.diff(bounds, prepend=start)
        newest, parts = self.parts(rows)
        edges = parts.cumsum()
        which, *uniform = torch.rand(3, count, generator=source, dtype=torch.float64).numpy()
        ring, part = np.divmod(np.minimum(edges.searchsorted(which * edges[-1], side="right"), len(edges) - 1), 3)
        most = np.where(part == 0, rows[ring], newest[ring])
        age = (uniform[0] * most).astype(np.int64)
        other = (uniform[1] * (most - 1)).astype(np.int64)
        age = np.where(part == 2, np.minimum(age, other + (other >= age)), age)
        return torch.from_numpy(bounds[ring] - 1 - age)

    def parts(self, rows: Integers) -> tuple[Integers, NDArray[np.float64]]:
        """Return the numbers m of rows above the floor, (num_envs,), and the sums of the three terms, (num_envs, 3).

        `rows` are the numbers n of rows of each ring, (num_envs,)."""
        fall = len(rows) / self.horizon
        newest = np.minimum(rows, np.ceil((1.0 - self.low) / fall).astype(np.int64))
        level = np.maximum(1.0 - self.low - fall * (newest - 1), 0.0)
        return newest, np.stack([self.low * rows, level * newest, fall / 2 * newest * (newest - 1)], 1)


@dataclass(frozen=True)
class Reservoir:
    """Draw from all transitions alike, of a uniform sample of those so far (see `ReservoirMemory`)."""


Sampling = Uniform | Recency | Reservoir
samplings: Registry[Callable[..., Sampling]] = Registry(
    "replay sampling", {"uniform": Uniform, "recency": Recency, "reservoir": Reservoir}
)


def parse_sampling(text: str) -> Sampling:
    """Return the sampling that a text such as "recency(horizon=40_000)" names.

    Raises ValueError for an unknown name and for wrong parameters."""
    call = parse_call(text)
    factory = samplings.get(call.name)
    return factory(**bind(factory, call.params, call.name))
