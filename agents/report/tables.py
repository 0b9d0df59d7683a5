"""The tables of a report on agents, for the page and the terminal."""

from collections.abc import Iterable, Sequence

from ...metrics import Score, bootstrap_coverage
from ...reports.tables.differences import difference_tables
from ...reports.tables.metrics import IN_TABLES, intervention_columns, intervention_words
from ...reports.tables.table import MISSING, BySeed, Table, estimate, number, over_seeds
from .areas import share_table
from .scores import AgentScores, ArmScores, interval

PLASTICITY, HUMAN, GAP, EXPLOSIONS = "plasticity score", "human-normalised score", "ΔGAP (IQM)", "explosions"
SFE = "SFE"
# Cells without information: a column that has only these is left out.
NOTHING = {name: {MISSING} for name in (PLASTICITY, HUMAN, GAP, SFE, *IN_TABLES.values())} | {EXPLOSIONS: {"0"}}


def short_name(env: str) -> str:
    """Return an environment's name without its namespace and version."""
    return env.removeprefix("ALE/").replace("-v5", "").replace("-v4", "")


def summary_rows(scores: AgentScores) -> tuple[list[str], list[list[str]]]:
    """Return the header and one row per arm, as text. Columns without values are left out."""
    arms = list(scores.arms.values())
    columns: list[tuple[str, list[str]]] = [
        ("arm", list(scores.arms)),
        ("seeds", [str(len(arm.seeds)) for arm in arms]),
        (PLASTICITY, [score_text(arm.plasticity, 2) for arm in arms]),
        (HUMAN, [score_text(arm.human, 3) for arm in arms]),
        *((short_name(env), [_final(arm, i) for arm in arms]) for i, env in enumerate(scores.environments)),
        (GAP, [number(arm.gap_change) for arm in arms]),
        (EXPLOSIONS, [str(arm.explosions) for arm in arms]),
        *intervention_columns([arm.at_events for arm in arms], digits=2).items(),
    ]
    shown = [(name, cells) for name, cells in columns if set(cells) - NOTHING.get(name, set())]
    return [name for name, _ in shown], [list(row) for row in zip(*(cells for _, cells in shown), strict=True)]


def summary_words(scores: AgentScores) -> str:
    """Return the explanation of the columns that the summary has."""
    header, rows = summary_rows(scores)
    arms = scores.arms.values()
    texts = {
        PLASTICITY: "Plasticity score: interquartile mean of min–max normalised final returns, relative to the runs in "
        f"this table{_bracket(arm.plasticity for arm in arms)}.",
        HUMAN: "Human-normalised score: interquartile mean of (return − random) / (human − random)"
        f"{_bracket(arm.human for arm in arms)}; returns from {human_source(scores)}.",
        "arm": f"{', '.join(map(short_name, scores.environments))}: mean training return in {scores.end}. "
        f"{over_seeds(max(len(arm.seeds) for arm in arms))}",
        GAP: "ΔGAP: change of the train–test gap from an environment’s first task to its last; positive: it widened.",
        SFE: f"{intervention_words('squared change of the weights that exist before and after')}: means over the arm’s "
        "interventions.",
    }
    missing = [f"{MISSING} was not measured."] if any(MISSING in row for row in rows) else []
    return " ".join([text for name, text in texts.items() if name in header] + missing)


def bootstrap_words(scores: Sequence[Score | None]) -> str:
    """Return a description of the scores' intervals and their coverage, or "" if no score has an interval."""
    known = [score.normalized.shape for score in scores if score is not None and interval(score)]
    if not known:
        return ""
    runs, environments = min(known)
    coverage = 100 * bootstrap_coverage(runs, environments)
    return f"95 % stratified bootstrap over seeds, whose coverage with {runs} seeds is about {coverage:.0f} %"


def tables(scores: AgentScores) -> list[Table]:
    """Return all tables of the page: the summary, differences between arms, and the share of a fresh agent."""
    share_of_arm = {label: arm.share for label, arm in scores.arms.items() if arm.share is not None}
    about = (
        f"Final return: mean training return in {scores.end}. Mean return: area under the learning curves after the "
        "fork point, divided by the number of steps."
    )
    return [
        Table("Summary", *summary_rows(scores), summary_words(scores)),
        *difference_tables(scores.differences, about),
        *([share_table(share_of_arm)] if share_of_arm else []),
    ]


def human_source(scores: AgentScores) -> str:
    """Return a description of the returns that were human-normalised."""
    if scores.human_from == "evaluation":
        return f"the last evaluation in {scores.end}"
    return f"training episodes in {scores.end}, with the exploring policy (not every run has an evaluation there)"


def _bracket(scores: Iterable[Score | None]) -> str:
    bootstrap = bootstrap_words(list(scores))
    return f" [{bootstrap}]" if bootstrap else ""


def _final(arm: ArmScores, environment: int) -> str:
    spread = arm.last_in(environment)
    text = estimate(spread.mean, spread.interval)
    return BySeed.of(text, arm.by_seed(spread.values))


def score_text(score: Score | None, digits: int) -> str:
    """Return `0.61 [0.52, 0.70]` with `digits` decimal places, or `0.61` if there is only one seed."""
    if score is None:
        return MISSING
    ends = ", ".join(f"{end:.{digits}f}" for end in interval(score) or [])
    return (f"{score.iqm:.{digits}f}" + (f" [{ends}]" if ends else "")).replace("-", "−")
