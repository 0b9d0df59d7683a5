"""The tables of a report on agents, for the page and the terminal."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from supple.metrics import Score, bootstrap_coverage
from supple.reports.tables.cells import MISSING, Form, Heading, Number, Value, is_missing
from supple.reports.tables.metrics import intervention_columns, intervention_words
from supple.reports.tables.table import Table, over_seeds

from .areas import share_table
from .scores import AgentScores, interval

PLASTICITY, HUMAN, GAP, EXPLOSIONS = "plasticity score", "human-normalised score", "ΔGAP (IQM)", "explosions"
SFE = "SFE"


def short_name(env: str) -> str:
    """Return an environment's name without its namespace and version."""
    return env.removeprefix("ALE/").replace("-v5", "").replace("-v4", "")


def summary_table(scores: AgentScores) -> Table:
    """Return a table with one row per arm. Columns without values are left out."""
    arms = list(scores.arms.values())
    columns: dict[Heading, list[Value]] = {
        "arm": list(scores.arms),
        "seeds": [len(arm.seeds) for arm in arms],
    }
    for name in _in_summary(scores):
        for i in scores.places:
            heading = short_name(scores.environments[i]) if len(scores.environments) > 1 else name
            columns[heading] = [Number.of(arm.spread(name, i)) for arm in arms]
    columns[HUMAN] = _score_cells((arm.human for arm in arms), 3)
    columns[GAP] = [arm.gap_change for arm in arms]
    if any(arm.explosions for arm in arms):
        columns[EXPLOSIONS] = [arm.explosions for arm in arms]
    columns |= intervention_columns([arm.at_events for arm in arms], digits=2)
    columns[PLASTICITY] = _score_cells((arm.plasticity for arm in arms), 2)
    seeds = over_seeds(max(len(arm.seeds) for arm in arms))
    table = Table.from_columns("Summary", columns, seeds, about=_about_columns(scores))
    missing = MISSING in chain.from_iterable(table.texts)
    return replace(table, words=f"{table.words} {MISSING} was not measured.") if missing else table


def _score_cells(scores: Iterable[Score | None], digits: int) -> list[Value]:
    form = Form(decimals=digits)
    return [None if score is None else Number.of_score(score, form) for score in scores]


def _in_summary(scores: AgentScores) -> list[str]:
    """Return the measures that the summary has: of several environments, only the one that leads the report."""
    return scores.names if len(scores.environments) == 1 else scores.names[:1]


def _about_columns(scores: AgentScores) -> dict[Heading, str]:
    """Return the explanations of the columns."""
    arms, several = scores.arms.values(), len(scores.environments) > 1
    about: dict[Heading, str] = {name: scores.define(name) for name in _in_summary(scores)}
    places = f"{', '.join(map(short_name, scores.environments))}: {scores.names[0]}. {scores.define(scores.names[0])}"
    return about | {
        "arm": places if several else "",
        HUMAN: "Human-normalised score: interquartile mean of (return − random) / (human − random)"
        f"{_bracket(arm.human for arm in arms)}; returns from {human_source(scores)}.",
        GAP: "ΔGAP: change of the train–test gap from an environment’s first task to its last; positive: it widened.",
        SFE: f"{intervention_words('squared change of the weights that exist before and after')}: means over the arm’s "
        "interventions.",
        PLASTICITY: "Plasticity score: interquartile mean of min–max normalised final returns, relative to the runs in "
        f"this table{_bracket(arm.plasticity for arm in arms)}.",
    }


def bootstrap_words(scores: Sequence[Score | None]) -> str:
    """Return a description of the scores' intervals and their coverage, or "" if no score has an interval."""
    known = [np.isfinite(score.normalized).sum(axis=0) for score in scores if score is not None and interval(score)]
    if not known:
        return ""
    runs, environments = min((int(counts[counts > 1].min()), int((counts > 1).sum())) for counts in known)
    coverage = 100 * bootstrap_coverage(runs, environments)
    return f"95 % stratified bootstrap over seeds, whose coverage with {runs} seeds is about {coverage:.0f} %"


def tables(scores: AgentScores) -> list[Table]:
    """Return the tables of agents: the summary and the shares of a fresh agent."""
    share_of_arm = {
        label: arm.shares
        for label, arm in scores.arms.items()
        if arm.shares and not all(map(is_missing, arm.shares.by_task))
    }
    return [summary_table(scores), *([share_table(share_of_arm)] if share_of_arm else [])]


def human_source(scores: AgentScores) -> str:
    """Return a description of the returns that were human-normalised."""
    if scores.human_from == "evaluation":
        return f"the last evaluation in {scores.end}"
    return f"training episodes in {scores.end}, with the exploring policy (not every run has an evaluation there)"


def _bracket(scores: Iterable[Score | None]) -> str:
    bootstrap = bootstrap_words(list(scores))
    return f" [{bootstrap}]" if bootstrap else ""
