"""The tables of a report on agents, for the page and the terminal."""

from collections.abc import Sequence

import numpy as np

from supple.metrics import Score, bootstrap_coverage
from supple.reports.tables.cells import MISSING, Form, Heading, Number, is_missing
from supple.reports.tables.metrics import intervention_columns, intervention_words
from supple.reports.tables.table import Columns, Table, over_seeds

from .areas import share_table
from .scores import AgentScores, interval

PLASTICITY, HUMAN, GAP, EXPLOSIONS = "plasticity score", "human-normalised score", "ΔGAP (IQM)", "explosions"
SFE = "SFE"


def short_name(env: str) -> str:
    """Return an environment's name without its namespace and version."""
    return env.removeprefix("ALE/").replace("-v5", "").replace("-v4", "")


def summary_table(scores: AgentScores) -> Table:
    """Return a table with one row per arm: of several environments, by the measure that leads the report alone.

    Columns without values are left out.
    """
    arms, several = list(scores.arms.values()), len(scores.environments) > 1
    plasticity, human = [arm.plasticity for arm in arms], [arm.human for arm in arms]
    columns: Columns = {"arm": list(scores.arms), "seeds": [len(arm.seeds) for arm in arms]}
    about: dict[Heading, str] = {
        HUMAN: f"Human-normalised score: interquartile mean of (return − random) / (human − random) of "
        f"{human_source(scores)}. {bootstrap_sentence(human)}",
        GAP: "ΔGAP: change of the train–test gap from an environment’s first task to its last; positive: it widened.",
        SFE: f"{intervention_words('squared change of the weights that exist before and after')}: means over the arm’s "
        "interventions.",
        PLASTICITY: "Plasticity score: interquartile mean of min–max normalised final returns, relative to the runs in "
        f"this table. {bootstrap_sentence(plasticity)}",
    }
    for name in scores.names[:1] if several else scores.names:
        about["arm" if several else name] = scores.define(name)
        for i in scores.places:
            heading = short_name(scores.environments[i]) if several else name
            columns[heading] = [Number.of(arm.spread(name, i)) for arm in arms]
    columns[HUMAN] = [Number.of_score(score, Form(decimals=3)) if score else None for score in human]
    columns[GAP] = [arm.gap_change for arm in arms]
    if any(arm.explosions for arm in arms):
        columns[EXPLOSIONS] = [arm.explosions for arm in arms]
    columns |= intervention_columns([arm.at_events for arm in arms], digits=2)
    columns[PLASTICITY] = [Number.of_score(score, Form(decimals=2)) if score else None for score in plasticity]
    words = f"{over_seeds(max(len(arm.seeds) for arm in arms))} {MISSING}: not measured."
    return Table.from_columns("Summary", columns, words, about=about)


def bootstrap_sentence(scores: Sequence[Score | None]) -> str:
    """Return a description of the scores' intervals and their coverage."""
    known = [np.isfinite(score.normalized).sum(axis=0) for score in scores if score is not None and interval(score)]
    if not known:
        return over_seeds(1)
    runs, environments = min((int(counts[counts > 1].min()), int((counts > 1).sum())) for counts in known)
    coverage = 100 * bootstrap_coverage(runs, environments)
    return f"Interval: 95 % stratified bootstrap over seeds; coverage with {runs} seeds about {coverage:.0f} %."


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
    return f"{scores.human_from} returns in {scores.end}"
