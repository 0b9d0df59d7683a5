"""Where methods stand: how much of what a network loses each of them gives back."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..fork import FRESH, NONE
from .row import Row

REPS, TAIL = 2000, 2.5
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Standing:
    """Hold where a method stands: its share in each study, and their mean, each with its 95 % interval.

    A share is 0 for a network that goes on as it is, and 1 for one that is new with every task. shares: by study, but
    for controls. overall: None where a run failed or a study is missing."""

    row: Row
    shares: Mapping[str, tuple[float, float, float]]
    overall: tuple[float, float, float] | None


def standings(rows: Sequence[Row], studies: Sequence[str]) -> list[Standing]:
    """Return where these rows stand, best first, those without an overall share last.

    studies: those that have shares. rows: those of `none` and `fresh` among them, between which shares are measured:
    (mean − none)/(fresh − none), of means over seeds. Intervals are percentiles of a bootstrap over seeds, which are
    drawn for all three together, as what they share of a seed is no chance. Without these two rows nothing has a share.
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
    """Return the share, (1 + reps,): of all seeds, then of those that were drawn. None where a score is missing."""
    scores = [_scores(row, study) for row in rows]
    if not all(each.keys() == scores[1].keys() and each for each in scores):
        return None
    values = np.array([[each[seed] for seed in scores[1]] for each in scores])  # (3, seeds)
    seeds = values.shape[1]
    drawn = np.random.default_rng(zlib.crc32(study.encode())).integers(seeds, size=(REPS, seeds))
    places = np.vstack([np.arange(seeds), drawn])
    own, floor, ceiling = values[:, places].mean(2)
    with np.errstate(divide="ignore", invalid="ignore"):  # seeds may be drawn of which the two do as well
        return np.asarray((own - floor) / (ceiling - floor), dtype=np.float64)


def _estimate(samples: Array) -> tuple[float, float, float]:
    """Return the share of all seeds, and the ends of its interval."""
    low, high = np.nanpercentile(samples[1:], (TAIL, 100 - TAIL))
    return float(samples[0]), float(low), float(high)
