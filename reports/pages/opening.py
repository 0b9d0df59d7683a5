"""The opening of a report: what was compared, and what can and cannot be concluded, in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter

from supple.engine.forks import FRESH, NONE
from supple.experiments.comparisons.grid import variant_text
from supple.experiments.history.data import ComparisonData, RunData
from supple.reports.tables.differences import (
    Measure,
    by_arm,
    differences,
    pairwise_differences,
    sentence_of,
    variants_of,
)
from supple.reports.tables.table import join_words, range_text

MOST = 8  # sentences of one sort, arms in a list or compared in pairs; the tables have the numbers of all
ABOUT_ARMS = {NONE: "no intervention", FRESH: "a new agent for each task"}
TEST = (
    "Paired t tests by seed, at .05, with Holm’s correction over the arms compared with one baseline, and once more "
    f"over the pairs of other arms, which are compared if there are at most {MOST} arms."
)
Arms = Mapping[str, Sequence[RunData]]  # arm → its runs in all variants and benchmarks


@dataclass(frozen=True)
class Opening:
    """Sentences: what was compared, which differences are significant, which are not, and by what test."""

    compared: list[str]
    can: list[str] = field(default_factory=list)
    cannot: list[str] = field(default_factory=list)
    test: str = TEST


def make_opening(
    datas: Sequence[ComparisonData], what: str, measures: Sequence[Measure], of_old_tasks: Sequence[Measure] = ()
) -> Opening:
    """Return the opening of a report on `what`, the runs in words, such as `PPO on Hopper`."""
    arms, leads = arms_of(datas), datas[0].first.spec.labels.leads
    compared = [_arms_sentence(arms, what), *_runs_sentences(datas, arms)]
    if all(len(measure.arms) < 2 for measure in measures):
        return Opening(compared)
    name = measures[0].group
    others = dict.fromkeys(measure.group for measure in measures if measure.known and measure.group != name)
    names = [f"{name}, as declared before the runs" if leads else name, *others]
    compared += [f"Arms are compared by {join_words(_cut(names))}.", measures[0].meaning]
    can, cannot = conclude(measures, of_old_tasks)
    return Opening(compared, _cut(can) or [f"Nothing about {name}: no difference is significant."], _cut(cannot))


def conclude(measures: Sequence[Measure], of_old_tasks: Sequence[Measure] = ()) -> tuple[list[str], list[str]]:
    """Return the sentences on arms with a significant difference, and on the others.

    A difference is significant if its corrected p is below .05. Its interval then excludes 0.
    """
    pairs = map(pairwise_differences, (measure for measure in measures if 2 < len(measure.arms) <= MOST))
    can: list[str] = []
    cannot: list[str] = []
    for group in by_arm([*differences([*measures, *of_old_tasks]), *chain.from_iterable(pairs)]):
        (can if any(each.significant for each in group) else cannot).append(sentence_of(group))
    return can, cannot


def arms_of(datas: Sequence[ComparisonData]) -> Arms:
    """Return the runs of each arm, with those of all variants and benchmarks together."""
    arms: dict[str, list[RunData]] = {}
    for data in datas:
        for arm, label in chain.from_iterable(labels.items() for labels in variants_of(data).values()):
            arms.setdefault(arm, []).extend(run.as_logged for run in data.arms[label])
    return arms


def title_of(arms: Arms, what: str) -> str:
    """Return `5 arms of PPO on CartPole-v1`, or what was trained alone if there is one arm."""
    return what if len(arms) == 1 else f"{len(arms)} arms of {what}"


def _cut(items: Sequence[str]) -> list[str]:
    return [*items[:MOST], *([f"{len(items) - MOST:,} more"] if len(items) > MOST else [])]


def _arms_sentence(arms: Arms, what: str) -> str:
    """Return what was trained: the arms, with a description of those whose names do not contain their hooks."""
    names = []
    for arm, runs in arms.items():
        hidden = join_words([hook for hook in runs[0].spec.resolved.hooks if hook not in arm])
        about = ABOUT_ARMS.get(arm, hidden)
        names.append(f"{arm} ({about})" if about else arm)
    return f"{title_of(arms, what)}: {join_words(_cut(names))}."


def _runs_sentences(datas: Sequence[ComparisonData], arms: Arms) -> list[str]:
    runs = list(chain.from_iterable(arms.values()))
    points = [data.point(label) for data in datas for label in data.arms]
    variants = len({variant_text(point.variant) for point in points})
    varied = join_words(list(dict.fromkeys(name.replace("_", " ") for point in points for name in point.variant)))
    seeds = list(map(str, sorted({run.seed for run in runs})))
    each = range_text([len(set(map(attrgetter("seed"), of_arm))) for of_arm in arms.values()])
    steps, tasks = range_text([run.total_steps for run in runs]), range_text([len(run.tasks) for run in runs])
    fork = datas[0].fork_step
    return [
        f"Each run has {steps} {runs[0].spec.kind_row.unit}; tasks: {tasks}.",
        f"Seeds: {join_words(_cut(seeds))} ({each} for each arm).",
        *([f"There are {variants} variants of {varied}."] if variants > 1 else []),
        *([f"The arms of a seed continue from one trunk of {fork:,} steps."] if fork and len(arms) > 1 else []),
    ]
