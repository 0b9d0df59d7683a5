"""Numbers as words: the summary of the page and of the terminal, the reset contracts, the list of events."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...metrics import Score
from .collect import ComparisonData, Row
from .scores import ArmScores, Scores, interval, mean

MISSING = "–"
PLASTICITY, HUMAN, GAP, EXPLOSIONS = "plasticity score", "human-normalised score", "ΔGAP (IQM)", "explosions"
SFE, DFI = "SFE", "DfI (scale-free)"
# Cells that say nothing: a column of them alone is left out.
NOTHING = {name: {MISSING} for name in (PLASTICITY, HUMAN, GAP, SFE, DFI)} | {EXPLOSIONS: {"0"}}


@dataclass(frozen=True)
class Table:
    """A table as text: rows begin with an arm. words: what the columns mean."""

    title: str
    header: list[str]
    rows: list[list[str]]
    words: str = ""


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
    """(header, one row an arm), ready to print; a measure that no arm has anything of is left out."""
    arms = list(scores.arms.values())
    returns = np.stack([mean(arm.last, axis=0) for arm in arms])
    columns: list[tuple[str, list[str]]] = [
        ("arm", list(scores.arms)),
        ("seeds", [str(len(arm.seeds)) for arm in arms]),
        (PLASTICITY, [score_text(arm.plasticity, 2) for arm in arms]),
        (HUMAN, [score_text(arm.human, 3) for arm in arms]),
        *((bare(env), [number(float(v)) for v in returns[:, i]]) for i, env in enumerate(scores.environments)),
        (GAP, [number(arm.gap_change) for arm in arms]),
        (EXPLOSIONS, [str(arm.explosions) for arm in arms]),
        (SFE, [number(arm.at_events["sfe"]) for arm in arms]),
        (DFI, [_dfi_text(arm) for arm in arms]),
    ]
    shown = [(name, cells) for name, cells in columns if set(cells) - NOTHING.get(name, set())]
    return [name for name, _ in shown], [list(row) for row in zip(*(cells for _, cells in shown), strict=True)]


def summary_words(scores: Scores) -> str:
    """What the columns of the summary mean, those that are there."""
    header, _ = summary_rows(scores)
    words = {
        PLASTICITY: "Plasticity score: interquartile mean of min–max normalised final returns [95 % interval over "
        "seeds], relative to the runs in this table.",
        HUMAN: f"Human-normalised score: interquartile mean of (return − random) / (human − random) "
        f"[95 % interval over seeds]; returns of {human_source(scores)}.",
        "arm": f"{', '.join(map(bare, scores.environments))}: mean training return in {scores.end}.",
        GAP: "ΔGAP: change of the train–test gap from the first cycle to the last; positive means it widened.",
        SFE: "SFE (squared change of the weights, those that are there before and after) and DfI before → after: "
        "means over the arm’s interventions.",
    }
    return " ".join([text for name, text in words.items() if name in header] + [f"{MISSING} was not measured."])


def human_source(scores: Scores) -> str:
    """Which returns were human-normalised."""
    if scores.human_from == "evaluation":
        return f"the last evaluation in {scores.end}"
    return f"training episodes in {scores.end}, so of the exploring policy (not every run has an evaluation there)"


def _dfi_text(arm: ArmScores) -> str:
    before, after = (number(arm.at_events[f"dfi_unscaled_{side}"], 2) for side in ("before", "after"))
    return MISSING if before == after == MISSING else f"{before} → {after}"


def score_text(score: Score | None, digits: int) -> str:
    """`0.61 [0.52, 0.70]`, with so many digits after the point, and no interval where one seed gives none."""
    if score is None:
        return MISSING
    ends = ", ".join(f"{end:.{digits}f}" for end in interval(score) or [])
    return (f"{score.iqm:.{digits}f}" + (f" [{ends}]" if ends else "")).replace("-", "−")


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
                    rows.append([label, run.whose_events, f"{event['step']:,}", *_event_cells(event)])
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
