"""Generalization gap of a run on changing environments (activations paper, Section 7.1 and Appendix F)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .scores import iqm

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GeneralizationGap:
    """Train minus test return, and its change from the first cycle to the last; positive: it widened."""

    gap: Array  # (cycles, environments)
    change: Array  # (environments,): last cycle's gap minus the first's
    iqm_change: float  # interquartile mean of `change` over environments


def generalization_gap(
    train: ArrayLike, test: ArrayLike, exploded: ArrayLike | None = None, floor: float = -500.0
) -> GeneralizationGap:
    """Return GAP[c, e] = train − test return at the end of cycle c in environment e; ΔGAP = GAP_last − GAP_first.

    train, test: (cycles, environments) mean returns, test on a held-out variant (in the paper,
        another friction).
    exploded: (cycles, environments) booleans of physics explosions.
    floor: a return below it, train or test, is a failure. So are exploded and infinite ones. A failed cell's
        gap is 0 (note of Table 4: two failures do not differ in a way that means anything).

    A NaN return is a cell that was not reached: its gap and change are NaN, and left out of the IQM (NaN if
    none is left). With a single cycle there is no change to speak of, and `change` is NaN.

    The sign is the RL one. For supervised tasks the paper's Table E3 uses test − train; and Table 4 prints
    the IQM of Rand. Smooth-Leaky as 59.03, where its own row and Table F3 give −59.03.

    Raises ValueError when the shapes are not one (cycles, environments).
    """
    on_train, on_test = np.asarray(train, dtype=np.float64), np.asarray(test, dtype=np.float64)
    flags = np.zeros(on_train.shape, bool) if exploded is None else np.asarray(exploded, dtype=bool)
    if on_train.ndim != 2 or on_train.size == 0 or not on_train.shape == on_test.shape == flags.shape:
        raise ValueError(
            "generalization_gap: train, test and exploded must all be (cycles, environments), not empty; "
            f"got {on_train.shape}, {on_test.shape} and {flags.shape}"
        )
    failed = flags | (on_train < floor) | (on_test < floor) | np.isinf(on_train) | np.isinf(on_test)
    gap = np.subtract(on_train, on_test, out=np.zeros_like(on_train), where=~failed)
    change = gap[-1] - gap[0] if len(gap) > 1 else np.full(gap.shape[1], np.nan)
    reached = change[~np.isnan(change)]
    return GeneralizationGap(gap, change, iqm(reached) if reached.size else float("nan"))
