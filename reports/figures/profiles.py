"""Performance profiles: the share of an arm's runs that reach a score, for all scores."""

from collections.abc import Sequence

import numpy as np

from supple.engine.forks import FRESH
from supple.metrics import Array, performance_profile
from supple.reports.tables.arms import pad_columns
from supple.reports.tables.differences import Measure, group_by

from .style import INK, Plot, arm_styles, legend, new_figure, tidy

FEWEST = 10  # scores of an arm: with fewer, a profile is mostly noise
MOST_ARMS = 14
THRESHOLDS = 81


def profiles(measures: Sequence[Measure]) -> Plot | None:
    """Return the profiles of all arms over seeds, variants and environments, for measures of one family.

    Return None if an arm has too few scores, or there are too many arms to distinguish.
    """
    scaled = len({measure.place for measure in measures}) > 1
    arms: dict[str, list[Array]] = {}
    for of_place in group_by(measures, lambda measure: measure.place).values():
        scores = [(arm, m.scale * m.spread(arm).known) for m in of_place for arm in m.arms]
        every = np.concatenate([np.empty(0), *(of_arm for _, of_arm in scores)])
        low, span = (every.min(), np.ptp(every)) if scaled and every.size else (0.0, 1.0)
        for arm, of_arm in scores:
            if of_arm.size:
                arms.setdefault(arm, []).append((of_arm - low) / (span or 1.0))
    known = {arm: pad_columns(columns) for arm, columns in arms.items() if sum(map(len, columns)) >= FEWEST}
    if not 1 < len(known) <= MOST_ARMS or set(arms) - known.keys() - {FRESH}:
        return None
    reached = np.concatenate([matrix[np.isfinite(matrix)] for matrix in known.values()])
    if not (span := float(np.ptp(reached))):
        return None
    thresholds = np.linspace(reached.min() - 0.02 * span, reached.max() + 0.02 * span, THRESHOLDS)
    figure, styles = new_figure(3.4, width=8.0), arm_styles(list(known))
    axes = figure.subplots()
    tidy(axes)
    lower = measures[0].lower_is_better
    for arm, matrix in known.items():
        profile = performance_profile(-matrix if lower else matrix, -thresholds if lower else thresholds)
        axes.plot(thresholds, profile.share, linewidth=1.8, **styles[arm])
        axes.fill_between(thresholds, profile.low, profile.high, color=styles[arm]["color"], alpha=0.12, linewidth=0)
    axes.set_xlabel(
        f"{measures[0].axis}{', 0 to 1 in each environment' if scaled else ''}: τ",
        fontsize=9.5,
        color=INK,
    )
    axes.set_ylabel(f"share of runs {'<' if lower else '>'} τ", fontsize=9.5, color=INK)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlim(thresholds[0], thresholds[-1])
    legend(figure, list(known))
    fewest = min(int(np.isfinite(matrix).sum()) for matrix in known.values())
    caption = (
        f"Over seeds, variants and environments, with at least {fewest} scores per arm. Bands: pointwise 95 % "
        "stratified bootstrap intervals. An arm whose curve is higher everywhere is better by any score."
    )
    return Plot("performance_profiles", "Performance profiles", caption, figure)
