"""The opening of a report: what was compared, and what can and cannot be concluded, in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter

from supple.engine.forks import FRESH, NONE
from supple.experiments.comparisons.grid import variant_text
from supple.experiments.history.data import ComparisonData, RunData
from supple.reports.tables.differences import (
    LEVEL,
    Measure,
    by_arm,
    differences,
    pairwise_differences,
    sentence_of,
    variants_of,
)
from supple.reports.tables.old_tasks import OldTasks, sentences
from supple.reports.tables.table import join_words, range_text

MOST = 6  # sentences of one sort; the tables have the numbers of all
MOST_ARMS = 8  # in a list; with more, arms are compared with the baseline only
ABOUT_ARMS = {NONE: "no intervention", FRESH: "a new agent for each task"}
Arms = Mapping[str, Sequence[RunData]]  # arm → its runs in all variants and benchmarks


@dataclass(frozen=True)
class Opening:
    """Sentences: what was compared, which differences are significant, and which are not."""

    compared: list[str]
    can: list[str] = field(default_factory=list)
    cannot: list[str] = field(default_factory=list)
    test: str = ""


def make_opening(
    datas: Sequence[ComparisonData], what: str, measures: Sequence[Measure], old_tasks: Sequence[OldTasks] = ()
) -> Opening:
    """Return the opening of a report on `what`, the runs in words, such as `PPO on Hopper`."""
    arms, leads = arms_of(datas), datas[0].first.spec.labels.leads
    compared = [_arms_sentence(arms, what), _steps_sentence(datas, arms), _seeds_sentence(datas, arms)]
    if all(len(measure.arms) < 2 for measure in measures):
        return Opening(compared)
    name = measures[0].group
    others = list(dict.fromkeys(measure.group for measure in measures if measure.known and measure.group != name))
    before = ", as declared before the runs" if leads else ""
    also = f"{',' * bool(before)} and also by {join_words(_cut(others, MOST_ARMS))}" if others else ""
    compared += [f"Arms are compared by {name}{before}{also}.", *filter(None, [measures[0].meaning])]
    can, cannot = conclude(measures)
    sure = sentences(old_tasks, sure=True)
    cannot += [sentence for sentence in sentences(old_tasks) if sentence not in sure]
    can = [*can, *sure] or [f"Nothing about {name}: no difference is significant."]
    can, cannot = (_cut(said, MOST, " sentences: see the tables below.") for said in (can, cannot))
    return Opening(compared, can, cannot, _test_sentence(measures))


def conclude(measures: Sequence[Measure]) -> tuple[list[str], list[str]]:
    """Return the sentences on arms with a significant difference, and on the others.

    A difference is significant if its corrected p is below .05. Its interval then excludes 0.
    """
    pairs = map(pairwise_differences, (measure for measure in measures if 2 < len(measure.arms) <= MOST_ARMS))
    can: list[str] = []
    cannot: list[str] = []
    for group in by_arm([*differences(measures), *chain.from_iterable(pairs)]):
        (can if any(each.significant for each in group) else cannot).append(sentence_of(group))
    return can, cannot


def arms_of(datas: Sequence[ComparisonData]) -> Arms:
    """Return the runs of each arm, with those of all variants and benchmarks together."""
    arms: dict[str, list[RunData]] = {}
    for data in datas:
        for arm, label in chain.from_iterable(labels.items() for labels in variants_of(data).values()):
            arms.setdefault(arm, []).extend(run.as_logged for run in data.arms[label])
    return arms


def methods(arms: Arms) -> list[str]:
    """Return the arms without the fresh agent, unless it is alone."""
    return [arm for arm in arms if arm != FRESH] or list(arms)


def title_of(arms: Arms, what: str) -> str:
    """Return `4 arms of PPO on CartPole-v1`, or what was trained alone if there is one arm."""
    return what if len(arms) == 1 else f"{count_text(len(methods(arms)), 'arm')} of {what}"


def count_text(number: int, word: str) -> str:
    """Return a number with its noun: `1 seed`, `2 seeds`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _cut(items: Sequence[str], most: int, ending: str = "") -> list[str]:
    more = len(items) - most
    return [*items[:most], *([f"{more:,} more{ending}"] if more > 0 else [])]


def _arms_sentence(arms: Arms, what: str) -> str:
    names = [f"{arm}{_about(arm, arms[arm])}" for arm in methods(arms)]
    if len(arms) == 1:
        return f"1 arm of {what} was trained: {names[0]}."
    beside = f", beside {FRESH} ({ABOUT_ARMS[FRESH]})" if len(names) < len(arms) else ""
    return f"{title_of(arms, what)} were compared: {join_words(_cut(names, MOST_ARMS))}{beside}."


def _about(arm: str, runs: Sequence[RunData]) -> str:
    """Return a description in parentheses of an arm whose name does not contain its hooks, or ""."""
    hidden = join_words([hook for hook in runs[0].spec.resolved.hooks if hook not in arm])
    about = ABOUT_ARMS.get(arm, f"with {hidden}" if hidden else "")
    return f" ({about})" if about else ""


def _steps_sentence(datas: Sequence[ComparisonData], arms: Arms) -> str:
    runs = list(chain.from_iterable(arms.values()))
    steps, tasks = {run.total_steps for run in runs}, {len(run.tasks) for run in runs}
    points = [data.point(label) for data in datas for label in data.arms]
    variants = len({variant_text(point.variant) for point in points})
    varied = join_words(list(dict.fromkeys(name.replace("_", " ") for point in points for name in point.variant)))
    words = [f"Each run has {range_text(steps)} {runs[0].spec.kind_row.unit}"]
    words += [f"in {range_text(tasks)} tasks"] if tasks != {1} else []
    words += [f"in {variants} variants of {varied}"] if variants > 1 else []
    return f"{', '.join(words)}."


def _seeds_sentence(datas: Sequence[ComparisonData], arms: Arms) -> str:
    of_arms = [sorted(set(map(attrgetter("seed"), runs))) for runs in arms.values()]
    counts = set(map(len, of_arms))
    who = "Each arm was trained with" if len(of_arms) > 1 else "It was trained with"
    if all(seeds == of_arms[0] for seeds in of_arms) and len(of_arms[0]) <= MOST_ARMS:
        sentence = f"{who} {count_text(len(of_arms[0]), 'seed')} ({join_words([str(seed) for seed in of_arms[0]])})"
    else:
        sentence = f"{who} {range_text(counts)} seed{'' if counts == {1} else 's'}"
    if not (fork := datas[0].fork_step) or len(of_arms) == 1:
        return f"{sentence}."
    return f"{sentence}, and the arms of a seed continue from one trunk of {fork:,} steps."


def _test_sentence(measures: Sequence[Measure]) -> str:
    if all(len(seeds) < 2 for measure in measures for seeds in measure.arms.values()):
        return ""
    few = max(len(measure.arms) for measure in measures) <= MOST_ARMS
    others = ", and once more over the pairs of other arms" if few else "; other pairs of arms are not tested"
    level = f"{LEVEL:g}".removeprefix("0")
    return (
        f"Paired t tests by seed, at {level}, with Holm’s correction over the arms compared with one baseline{others}."
    )
