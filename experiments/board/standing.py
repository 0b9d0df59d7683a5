"""The ranking of methods on the board, by their share between `none` (0) and `fresh` (1)."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...engine.forks import FRESH, NONE
from .row import Row

REPS, TAIL = 2000, 2.5
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Standing:
    """The shares of a method: in each study and their mean, each as (share, low, high) with its 95 % interval.

    A share is 0 for a network without interventions, and 1 for a network that is new in every task. `shares` has all
    studies except controls. `overall` is None if a run failed or a study is missing.
    """

    row: Row
    shares: Mapping[str, tuple[float, float, float]]
    overall: tuple[float, float, float] | None


def standings(rows: Sequence[Row], studies: Sequence[str]) -> list[Standing]:
    """Return the standings of these rows, best first, with those without an overall share last.

    A share is (method − none)/(fresh − none), with means over seeds. Its interval is from a bootstrap over seeds
    (percentiles). Seeds are drawn jointly for the three rows, because a seed has common effects on them.

    Args:
        rows: The rows. Without those of `none` and `fresh`, there are no shares.
        studies: The studies that have shares.
    """
    by_method = {row.method: row for row in rows}
    ends = [by_method[method] for method in (NONE, FRESH) if method in by_method]
    found = []
    for row in rows:
        samples = {}
        for study in studies:
            if len(ends) == 2 and (own := _shares([row, *ends], study)) is not None:
                samples[study] = own
        whole = np.mean(list(samples.values()), axis=0) if len(samples) == len(studies) else None
        found.append(
            Standing(
                row,
                {study: _estimate(own) for study, own in samples.items()},
                None if whole is None else _estimate(whole),
            )
        )
    return sorted(found, key=lambda each: (each.overall is None, -(each.overall or (0.0,))[0]))


def _scores(row: Row, study: str) -> dict[str, float]:
    result = row.results.get(study)
    return {} if result is None or result.failed else {k: float(v or 0.0) for k, v in result.scores.items()}


def _shares(rows: Sequence[Row], study: str) -> Array | None:
    """Return shares of shape (1 + reps,), of all seeds and of bootstrap samples; None if a score is missing."""
    scores = [_scores(row, study) for row in rows]
    if not all(each.keys() == scores[1].keys() and each for each in scores):
        return None
    values = np.array([[each[seed] for seed in scores[1]] for each in scores])  # (3, seeds)
    seeds = values.shape[1]
    drawn = np.random.default_rng(zlib.crc32(study.encode())).integers(seeds, size=(REPS, seeds))
    places = np.vstack([np.arange(seeds), drawn])
    own, floor, ceiling = values[:, places].mean(2)
    with np.errstate(divide="ignore", invalid="ignore"):  # in a sample, `none` and `fresh` may have equal scores
        return np.asarray((own - floor) / (ceiling - floor), dtype=np.float64)


def _estimate(samples: Array) -> tuple[float, float, float]:
    """Return the share of all seeds and the ends of its interval."""
    low, high = np.nanpercentile(samples[1:], (TAIL, 100 - TAIL))
    return float(samples[0]), float(low), float(high)
