"""Numbers as words: the summary of the page and of the terminal, the reset contracts, the list of events."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .collect import ComparisonData, Row
from .scores import ArmScores, Scores, mean

MISSING = "–"


def bare(env: str) -> str:
    """An environment's name without the version, for narrow places."""
    return env.removeprefix("ALE/").replace("-v5", "").replace("-v4", "")


def number(value: Any, digits: int = 3) -> str:
    """A number with about this many digits and a true minus sign; a dash for what was not measured."""
    if not isinstance(value, (int, float)) or not np.isfinite(value):
        return MISSING
    large = abs(value) >= 10 ** (digits - 1)
    text = f"{value:,.0f}" if large and abs(value) < 1e7 else f"{value:.{digits}g}"
    return text.replace("-", "−")


def summary_rows(scores: Scores) -> tuple[list[str], list[list[str]]]:
    """(header, one row an arm), ready to print."""
    returns = [bare(env) for env in scores.environments]
    header = ["arm", "seeds", "plasticity score", *returns, "ΔGAP (IQM)", "explosions", "SFE", "DfI (scale-free)"]
    return header, [_summary_row(label, arm) for label, arm in scores.arms.items()]


def _summary_row(label: str, arm: ArmScores) -> list[str]:
    at = arm.at_events
    before, after = (number(at[f"dfi_unscaled_{side}"], 2) for side in ("before", "after"))
    return [
        label,
        str(len(arm.seeds)),
        plasticity_text(arm),
        *[number(float(value)) for value in mean(arm.last, axis=0)],
        number(arm.gap_change),
        str(arm.explosions),
        number(at["sfe"]),
        MISSING if before == after == MISSING else f"{before} → {after}",
    ]


def plasticity_text(arm: ArmScores) -> str:
    """`0.61 [0.52, 0.70]`, without the interval where one seed gives none."""
    if arm.plasticity is None:
        return MISSING
    low, high = arm.plasticity.low, arm.plasticity.high
    return f"{arm.plasticity.iqm:.2f}" + (f" [{low:.2f}, {high:.2f}]" if len(arm.seeds) > 1 else "")


@dataclass(frozen=True)
class Contract:
    """What one arm's intervention resets in one learner, as its own events say."""

    arm: str
    intervention: str
    learner: str
    terms: dict[str, str]


def contracts(data: ComparisonData) -> tuple[list[Contract], list[str]]:
    """(every distinct contract, arms in which nothing was applied at a moment).

    Continuous hooks, such as a penalty, write no event and so are in neither; the page lists all hooks besides.
    """
    found: dict[tuple[str, str, str], Contract] = {}
    idle = []
    for label, runs in data.arms.items():
        events = [event for run in runs for event in run.of_kind("intervention")]
        for event in events:
            who = str(event.get("intervention", "?")), str(event.get("learner", "?"))
            terms = {str(name): str(words) for name, words in event.get("contract", {}).items()}
            found.setdefault((label, *who), Contract(label, *who, terms))
        if not events:
            idle.append(label)
    return list(found.values()), idle


def event_rows(data: ComparisonData) -> list[list[str]]:
    """One row an intervention or explosion: arm, seed, step, what, where, SFE, DfI, seconds."""
    rows: list[list[str]] = []
    for label, runs in data.arms.items():
        for run in runs:
            for event in run.events:
                if event.get("event") in ("intervention", "explosion"):
                    rows.append([label, str(run.seed), f"{event['step']:,}", *_event_cells(event)])
    return rows


def _event_cells(event: Row) -> list[str]:
    if event["event"] == "explosion":
        return ["physics exploded", str(event.get("env", "?")), *[MISSING] * 4]
    before, after, change = (event.get(key, {}) for key in ("before", "after", "change"))
    return [
        str(event.get("intervention", "?")),
        str(event.get("learner", "?")),
        number(change.get("sfe")),
        number(change.get("feature_covariance_distance")),
        f"{number(before.get('dfi_unscaled'))} → {number(after.get('dfi_unscaled'))}",
        number(event.get("seconds")),
    ]
