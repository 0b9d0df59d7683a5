"""Where methods stand: how much of what a network loses each of them gives back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..fork import FRESH, NONE
from .row import Row

REPS, SEED, TAIL = 2000, 0, 2.5
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Standing:
    """Hold where a method stands: its share in each study, and their mean, each with its 95 % interval.

    A share is 0 for a network that goes on as it is, and 1 for one that is new with every task. shares: by study;
    overall: None where a run failed or a study is missing."""

    row: Row
    shares: Mapping[str, tuple[float, float, float]]
    overall: tuple[float, float, float] | None


def standings(rows: Sequence[Row], studies: Sequence[str]) -> list[Standing]:
    """Return where these rows stand, best first, those without an overall share last.

    rows: those of `none` and `fresh` among them, between which shares are measured: (mean − none)/(fresh − none), of
    means over seeds. Intervals are percentiles of a bootstrap over seeds, which are drawn for all three together, as
    what they share of a seed is no chance. Raises ValueError where one of the two is missing.
    """
    by_method = {row.method: row for row in rows}
    if missing := {NONE, FRESH} - by_method.keys():
        raise ValueError(f"the board has no row of {min(missing)}, by which the others are measured")
    generator, found = np.random.default_rng(SEED), []
    draws = {study: generator.random((REPS, len(_scores(by_method[NONE], study)))) for study in studies}
    for row in rows:
        samples = {}
        for study in studies:
            if (own := _shares([row, by_method[NONE], by_method[FRESH]], study, draws[study])) is not None:
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


def _shares(rows: Sequence[Row], study: str, draws: Array) -> Array | None:
    """Return the share, (1 + reps,): of all seeds, then of those that were drawn. None where a score is missing."""
    scores = [_scores(row, study) for row in rows]
    if not all(each.keys() == scores[1].keys() and each for each in scores):
        return None
    values = np.array([[each[seed] for seed in scores[1]] for each in scores])  # (3, seeds)
    places = np.vstack([np.arange(values.shape[1]), (draws * values.shape[1]).astype(int)])
    own, floor, ceiling = values[:, places].mean(2)
    return np.asarray((own - floor) / (ceiling - floor), dtype=np.float64)


def _estimate(samples: Array) -> tuple[float, float, float]:
    """Return the share of all seeds, and the ends of its interval."""
    low, high = np.nanpercentile(samples[1:], (TAIL, 100 - TAIL))
    return float(samples[0]), float(low), float(high)
