"""The opening of a report: what was compared, and what can and cannot be concluded, in words."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter

from supple.engine.forks import FRESH, NONE
from supple.experiments.history.data import ComparisonData, RunData
from supple.reports.tables.differences import (
    LEVEL,
    Difference,
    Measure,
    baseline_name,
    differences,
    group_by,
    pairwise_differences,
)
from supple.reports.tables.table import join_words

MOST = 6  # sentences of one sort; the page has those on every arm and number further down
MOST_ARMS = 8  # in a list; with more, arms are compared with the baseline only
ABOUT_ARMS = {NONE: "no intervention", FRESH: "a new agent for each task"}
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@dataclass(frozen=True)
class Opening:
    """Sentences: what was compared, which differences are significant, and which are not."""

    compared: list[str]
    can: list[str] = field(default_factory=list)
    cannot: list[str] = field(default_factory=list)
    test: str = ""


def make_opening(
    data: ComparisonData, what: str, measures: Sequence[Measure], meaning: str = "", more: Sequence[str] = ()
) -> Opening:
    """Return the opening of a report.

    Args:
        data: The runs, by arm.
        what: The runs, such as `PPO on Hopper`.
        measures: The numbers by which arms are compared. The differences that are not significant are listed
            for the first one only, in every environment and variant.
        meaning: The definition of the first one as a sentence, if its name is not enough.
        more: Further sentences on what can be concluded.
    """
    compared = [_arms_sentence(data, what), _steps_sentence(data), _seeds_sentence(data)]
    if not measures or len(data.arms) == 1:
        return Opening(compared)
    name = measures[0].group
    others = list(dict.fromkeys(measure.group for measure in measures if measure.known and measure.group != name))
    before = ", as declared before the runs" if data.first.spec.labels.leads else ""
    also = f"{',' * bool(before)} and also by {join_words(_cut_names(others))}" if others else ""
    compared += [f"Arms are compared by {name}{before}{also}.", *filter(None, [meaning])]
    can, cannot = conclude(measures)
    return Opening(compared, [*can, *_cut_sentences(list(more))], cannot, _test_sentence(measures))


def conclude(measures: Sequence[Measure]) -> tuple[list[str], list[str]]:
    """Return the sentences on what can be concluded, in all measures, and on what cannot, in the first one.

    A difference can be concluded if its corrected p is below .05. Its interval then excludes 0.
    """
    first = measures[0].group
    can: dict[str, list[str]] = {first: []}
    cannot = []
    to_baselines = [(measure, differences([measure])) for measure in measures]
    to_others = [(measure, pairwise_differences(measure)) for measure in measures if 2 < len(measure.arms) <= MOST_ARMS]
    compared = [*to_baselines, *to_others]
    for measure, of_measure in compared:
        prefix = f"{measure.variant}: " if measure.variant else ""
        can.setdefault(measure.group, []).extend(prefix + sentence for sentence in _significant_sentences(of_measure))
        if measure.group == first:
            cannot += [prefix + sentence for sentence in _other_sentences(of_measure)]
    if not any(of_measure for measure, of_measure in compared if measure.group == first):
        cannot = [f"No two arms have a value of {first} for the same seed, so they are not compared."]
    can[first] = can[first] or [f"Nothing about {first}: no difference is significant."]
    return _cut_sentences(list(chain.from_iterable(can.values()))), _cut_sentences(cannot)


def arms_of(data: ComparisonData, what: str) -> str:
    """Return `4 arms of PPO on CartPole-v1`, or what was trained alone if there is one arm."""
    return what if len(data.arms) == 1 else f"{count_text(len(data.methods), 'arm')} of {what}"


def in_words(number: int) -> str:
    """Return a number up to twelve as a word, and a larger one in digits."""
    return WORDS[number] if number < len(WORDS) else f"{number:,}"


def count_text(number: int, word: str) -> str:
    """Return a number with its noun: `1 seed`, `2 seeds`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _significant_sentences(compared: Sequence[Difference]) -> list[str]:
    significant = (difference for difference in compared if difference.significant)
    groups = group_by(significant, lambda difference: (difference.baseline, difference.paired.mean > 0))
    return [_higher_or_lower(group) for group in groups.values()]


def _higher_or_lower(group: Sequence[Difference]) -> str:
    first, n = group[0], group[0].paired.n
    in_all = all(_count_agreeing(difference) == difference.paired.n == n for difference in group)
    arms = join_words(
        [
            difference.arm
            if in_all
            else f"{difference.arm} (in {_count_agreeing(difference)} of {difference.paired.n} seeds)"
            for difference in group
        ]
    )
    verb, word = "has" if len(group) == 1 else "have", "higher" if first.paired.mean > 0 else "lower"
    seeds = (", in both seeds" if n == 2 else f", in all {n:,} seeds") if in_all else ""
    return f"{arms} {verb} a {word} {first.measure.name} than {baseline_name(first.baseline)}{seeds}."


def _count_agreeing(difference: Difference) -> int:
    """Return the number of seeds whose difference has the sign of the mean."""
    return sum(value * difference.paired.mean > 0 for value in difference.by_seed.values())


def _other_sentences(compared: Sequence[Difference]) -> list[str]:
    others = (difference for difference in compared if not difference.significant)
    groups = group_by(others, lambda difference: (difference.baseline, difference.paired.n == 1, difference.untested))
    return [_not_significant(group, single, untested) for (_, single, untested), group in groups.items()]


def _not_significant(group: Sequence[Difference], single: bool, untested: str) -> str:
    arms, baseline = join_words([difference.arm for difference in group]), baseline_name(group[0].baseline)
    name, one = group[0].measure.name, len(group) == 1
    if untested:
        return f"{arms} {'differs' if one else 'differ'} from {baseline} in {name} by {untested}."
    if single:
        have = "has" if one else "have"
        return f"{arms} {have} 1 seed in common with {baseline}: any difference in {name} may be due to chance."
    needed, do = join_words([difference.about_seeds_needed for difference in group]), "does" if one else "do"
    return f"{arms} {do} not differ significantly from {baseline} in {name} (seeds needed: {needed})."


def _cut_sentences(sentences: list[str]) -> list[str]:
    more = len(sentences) - MOST
    return (
        sentences if more <= 0 else [*sentences[:MOST], f"{count_text(more, 'more sentence')}: see the tables below."]
    )


def _arms_sentence(data: ComparisonData, what: str) -> str:
    names = [f"{arm}{_about(arm, data.arms[arm])}" for arm in data.methods]
    if len(data.arms) == 1:
        return f"1 arm of {what} was trained: {names[0]}."
    beside = f", beside {FRESH} ({ABOUT_ARMS[FRESH]})" if len(names) < len(data.arms) else ""
    return f"{arms_of(data, what)} were compared: {join_words(_cut_names(names))}{beside}."


def _cut_names(names: Sequence[str]) -> list[str]:
    more = len(names) - MOST_ARMS
    return [*names[:MOST_ARMS], *([f"{more:,} more"] if more > 0 else [])]


def _about(arm: str, runs: Sequence[RunData]) -> str:
    """Return a description in parentheses of an arm whose name does not contain its hooks, or ""."""
    hidden = join_words([hook for hook in runs[0].spec.resolved.hooks if hook not in arm])
    about = ABOUT_ARMS.get(arm, f"with {hidden}" if hidden else "")
    return f" ({about})" if about else ""


def _steps_sentence(data: ComparisonData) -> str:
    steps, tasks = {run.total_steps for run in data.runs}, {len(run.tasks) for run in data.runs}
    sentence = f"Each run has {range_text(steps)} {data.unit}"
    return f"{sentence}, in {range_text(tasks)} tasks." if tasks != {1} else f"{sentence}."


def _seeds_sentence(data: ComparisonData) -> str:
    of_arms = [sorted(set(map(attrgetter("seed"), runs))) for runs in data.arms.values()]
    counts = set(map(len, of_arms))
    who = "Each arm was trained with" if len(of_arms) > 1 else "It was trained with"
    if all(seeds == of_arms[0] for seeds in of_arms) and len(of_arms[0]) <= MOST_ARMS:
        sentence = f"{who} {count_text(len(of_arms[0]), 'seed')} ({join_words([str(seed) for seed in of_arms[0]])})"
    else:
        sentence = f"{who} {range_text(counts)} seed{'' if counts == {1} else 's'}"
    if not data.fork_step or len(of_arms) == 1:
        return f"{sentence}."
    return f"{sentence}, and the arms of a seed continue from one trunk of {data.fork_step:,} steps."


def range_text(numbers: Collection[int]) -> str:
    """Return a range as text: `1,000`, or `1,000 to 2,000` if the numbers differ."""
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _test_sentence(measures: Sequence[Measure]) -> str:
    if all(len(seeds) < 2 for measure in measures for seeds in measure.arms.values()):
        return ""
    few = max(len(measure.arms) for measure in measures) <= MOST_ARMS
    others = ", and once more over the pairs of other arms" if few else "; other pairs of arms are not tested"
    level = f"{LEVEL:g}".removeprefix("0")
    return (
        f"Paired t tests by seed, at {level}, with Holm’s correction over the arms compared with one baseline{others}."
    )
