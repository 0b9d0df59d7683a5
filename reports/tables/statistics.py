"""Statistics over seeds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from supple.metrics import Array, t_interval

NAN = float("nan")


@dataclass(frozen=True, eq=False)
class Spread:
    """A number of each of `seeds`, of shape (seeds,); NaN if it was not measured."""

    values: Array
    seeds: Sequence[int]

    @property
    def by_seed(self) -> dict[int, float]:
        return dict(zip(self.seeds, self.values.tolist(), strict=True))

    @property
    def known(self) -> Array:
        return self.values[np.isfinite(self.values)]

    @property
    def mean(self) -> float:
        return float(mean(self.values))

    @property
    def sd(self) -> float:
        """The standard deviation over seeds (ddof 1); NaN with fewer than two seeds."""
        return float(self.known.std(ddof=1)) if self.known.size > 1 else NAN

    @property
    def interval(self) -> tuple[float, float] | None:
        """Student's 95 % interval of the mean over seeds; None with fewer than two seeds."""
        ends = t_interval(self.known)
        return None if ends is None else (float(ends[0]), float(ends[1]))


def spread_json(spread: Spread) -> dict[str, Any]:
    """Return a number for scores.json: mean over seeds, sd (ddof 1), interval (Student's, 95 %), values per seed."""
    return {"mean": spread.mean, "sd": spread.sd, "interval": spread.interval, "per_seed": spread.values}


def known(value: float | None) -> float:
    """Return a number that is NaN if it was not measured."""
    return NAN if value is None else value


def mean(values: Array, axis: int | None = None) -> Any:
    """Return the mean of the finite values along an axis; NaN, without a warning, if there are none."""
    return np.ma.filled(np.ma.masked_invalid(values).mean(axis=axis), NAN)


def mean_of_known(values: Iterable[Any]) -> float:
    """Return the mean of the finite numbers; NaN if there are none."""
    return float(mean(np.array(list(values), dtype=float)))
