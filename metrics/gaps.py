"""Generalization gap of a run on changing environments (activations paper, Section 7.1 and Appendix F)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Array, as_array
from .scores import iqm


@dataclass(frozen=True, eq=False)
class GeneralizationGap:
    """Train minus test return, and its change from the first cycle to the last; positive: it widened."""

    gap: Array  # (cycles, environments)
    change: Array  # (environments,): last cycle's gap minus the first's
    iqm_change: float  # interquartile mean of `change` over environments


def generalization_gap(
    train: ArrayLike, test: ArrayLike, exploded: ArrayLike | None = None, floor: float = -500.0
) -> GeneralizationGap:
    """Return GAP[c, e] = train − test return at the end of cycle c in environment e, and ΔGAP = GAP_last − GAP_first.

    The sign is the usual one of RL. For supervised tasks the paper's Table E3 uses test − train. Its Table 4 prints the
    IQM of Rand. Smooth-Leaky as 59.03, but its own row and Table F3 give −59.03.

    Args:
        train, test: (cycles, environments) mean returns, test on a held-out variation (in the paper, another friction).
        exploded: (cycles, environments) booleans of physics explosions.
        floor: A train or test return below it is a failure, and so are exploded and infinite ones. The gap of a failed
            cell is 0 (note of Table 4: the difference of two failures has no meaning).

    Returns:
        The gaps. A NaN return marks a cell that was not reached: its gap and change are NaN, and are left out of the
        IQM (NaN if none is left). With a single cycle `change` is NaN.

    Examples:
        >>> from supple.metrics import generalization_gap
        >>> gap = generalization_gap(train=[[10, 20], [12, 30]], test=[[9, 20], [8, 10]])  # two cycles and environments
        >>> gap.gap.tolist()
        [[1.0, 0.0], [4.0, 20.0]]
        >>> gap.change.tolist(), gap.iqm_change
        ([3.0, 20.0], 11.5)
    """
    on_train, on_test = as_array(train), as_array(test)
    flags = np.zeros(on_train.shape, bool) if exploded is None else np.asarray(exploded, dtype=bool)
    failed = flags | (on_train < floor) | (on_test < floor) | np.isinf(on_train) | np.isinf(on_test)
    gap = np.subtract(on_train, on_test, out=np.zeros_like(on_train), where=~failed)
    change = gap[-1] - gap[0] if len(gap) > 1 else np.full(gap.shape[1], np.nan)
    reached = change[~np.isnan(change)]
    return GeneralizationGap(gap, change, iqm(reached) if reached.size else float("nan"))
