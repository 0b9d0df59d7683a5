"""Recovery from the shocks of a run. There is one window per shock, with one entry per epoch.

Source: Lillo & Cheney, "Activation Function Design Sustains Plasticity in Continual Learning", Section 4, Appendix D.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from supple.experiments.history.data import Row, RunData, Segment
from supple.metrics import (
    Array,
    accuracy_recovery_time,
    non_recovery_rate,
    peak_saturation,
    saturation_area,
    saturation_recovery_time,
)
from supple.reports.tables.statistics import Spread, mean_of_known


@dataclass(frozen=True, eq=False)
class Window:
    """The epochs from the one before a shock (entry 0) to the one before the next shock: (1 + epochs,)."""

    gamma: float
    saturation: Array
    accuracy: Array


@dataclass(frozen=True, eq=False)
class ShockScores:
    """The scores of all shocks of one factor γ in an arm.

    peak, area: a seed's mean over its shocks of the peak saturated fraction and of the area under the saturation
    curve, in epochs, for the seeds with shocks. recovery_time, tau_95: mean number of epochs until the saturated
    fraction is halved, and until 95 % of the accuracy before is regained, over the shocks with a recovery; NaN if there
    are none. Rates: the share of shocks without a recovery.
    """

    windows: int
    peak: Spread
    area: Spread
    recovery_time: float
    non_recovery_rate: float
    tau_95: float
    tau_95_non_recovery_rate: float


def windows_by_factor(runs: Sequence[RunData]) -> dict[float, dict[int, list[Window]]]:
    """Return the windows of each factor, sorted by factor: γ → seed → its windows, for the seeds that have some."""
    found: dict[float, dict[int, list[Window]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        for window in find_windows(run):
            found[window.gamma][run.seed].append(window)
    return dict(sorted(found.items()))


def find_windows(run: RunData) -> list[Window]:
    """Return the windows of a run that are complete: a later shock followed in the task, or the task is finished.

    Windows consist of the tests at the ends of epochs, so --eval-epochs must be 1 or a fraction of it. Otherwise there
    are none. A shock in the last epoch of a task shows no recovery, and one in the first epoch has no values before it:
    neither counts.
    """
    settings = run.settings
    if not settings.shock_every or not 0 < settings.eval_epochs <= 1:
        return []
    finished = {row["task"] for row in run.outcomes}
    rows: dict[int, list[Row]] = defaultdict(list)
    for row in run.metrics:
        if "saturated_fraction" in row and "gamma" in row:
            rows[row["task"]].append(row)
    windows = []
    for task in run.tasks:
        epochs = _epochs(rows[task.index], task, settings.batch_size)
        starts = [i for i, row in enumerate(epochs) if row["gamma"] != 1 and i > 0]
        ends = [*starts[1:], len(epochs) if task.index in finished else None]
        for start, end in zip(starts, ends, strict=False):
            if end is not None and end - start > 1:
                own = epochs[start - 1 : end]
                numbers = np.array([(row["saturated_fraction"], row["test_accuracy"]) for row in own])
                windows.append(Window(own[1]["gamma"], *numbers.T))
    return windows


def _epochs(rows: Sequence[Row], task: Segment, batch_size: int) -> list[Row]:
    """Return, for each epoch, the row of the last test in it; whole updates may not fill the last epoch of a task."""
    learned = [row for row in rows if row["step"] > task.start]
    return list({(row["step"] - task.start - 1) * batch_size // task.size: row for row in learned}.values())


def score_shocks(by_seed: Mapping[int, Sequence[Window]]) -> ShockScores:
    """Return the scores of the shocks of one factor, from the windows of each seed."""
    windows = list(chain.from_iterable(by_seed.values()))
    halved = np.array([saturation_recovery_time(w.saturation[1:]) for w in windows])
    regained = np.array([accuracy_recovery_time(w.accuracy[1:], w.accuracy[0]) for w in windows])
    return ShockScores(
        windows=len(windows),
        peak=_mean_of_shocks(by_seed, peak_saturation),
        area=_mean_of_shocks(by_seed, saturation_area),
        recovery_time=mean_of_known(halved),
        non_recovery_rate=non_recovery_rate(halved),
        tau_95=mean_of_known(regained),
        tau_95_non_recovery_rate=non_recovery_rate(regained),
    )


def _mean_of_shocks(by_seed: Mapping[int, Sequence[Window]], measure: Callable[[Array], Array]) -> Spread:
    means = []
    for windows in by_seed.values():
        means.append(np.mean([measure(window.saturation[1:]) for window in windows]))
    return Spread(np.array(means, dtype=np.float64), list(by_seed))
