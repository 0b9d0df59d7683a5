"""Paired differences between arms with the same seeds: comparisons, tables, sentences, and scores.json."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, TypeVar

import numpy as np

from supple.engine.forks import FRESH, NONE
from supple.experiments.comparisons.grid import Point, variant_text
from supple.experiments.history.data import ComparisonData
from supple.metrics import PairedDifference, holm, paired_difference

from .cells import P_VALUE, PLAIN, BySeed, Form, Label, Number, UpTo100, percent, some_of
from .statistics import Spread, known
from .table import Columns, Table, over_seeds

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)
LEVEL = 0.05
ENOUGH = UpTo100()  # seeds: no comparison has more, and from few seeds a larger number is not known better
LOWER = ("loss", "forgetting", "bwt", "perplexity")  # parts of the names of numbers for which lower is better
ABOUT = {
    "arm": "Each arm minus the baseline, paired by seed, which removes the variation that arms of a seed share.",
    "p (Holm)": "p (Holm): paired t test, corrected over the arms of a measure. A difference that is the same in every "
    "seed has no interval and no t test.",
    "p (signs)": "p (signs): exact sign-flip test, not corrected.",
    "seeds needed": "Seeds needed: for such a p in 8 of 10 experiments, if the true difference and deviation are those "
    "seen here. From few seeds, this is a rough number.",
}


@dataclass(frozen=True, eq=False)
class Measure:
    """One number of every arm, by seed.

    Attributes:
        name: Such as `final return, Hopper`.
        arms: Arm → seed → number; NaN if it is missing. The first arm is the baseline if none is called `none`.
        percent: Whether the numbers are shares, which are shown in %.
        variant: The variant of the settings as text.
        points: Arm → the arm as given by the user, and its variant.
        family: The common name of a number of several environments, such as `final return`.
        place: The environment of such a number.
        meaning: Its definition as a sentence, if the name is not enough.
        shares: Arm → its share of a fresh agent.
    """

    name: str
    arms: Mapping[str, Mapping[int, float]]
    percent: bool = False
    variant: str = ""
    points: Mapping[str, Point] = field(default_factory=dict)
    family: str = ""
    place: str = ""
    meaning: str = ""
    shares: Mapping[str, Number] = field(default_factory=dict)

    @property
    def lower_is_better(self) -> bool:
        return any(word in self.group.lower() for word in LOWER)

    @property
    def heading(self) -> Label | str:
        """The name, shown with the unit of the numbers."""
        return percent(self.name) if self.percent else self.name

    @property
    def axis(self) -> str:
        """The name of the family with the unit, for an axis of a figure."""
        return str(percent(self.group)) if self.percent else self.group

    @property
    def group(self) -> str:
        """The name of the family, or that of the measure if it has none."""
        return self.family or self.name

    @property
    def scale(self) -> float:
        """The factor with which the numbers are shown: 100 for shares."""
        return 100.0 if self.percent else 1.0

    @property
    def unit(self) -> str:
        """The unit that follows differences in sentences."""
        return " percentage points" if self.percent else ""

    @property
    def form(self) -> Form:
        """The form in which the numbers are shown."""
        return Form(scale=self.scale) if self.percent else PLAIN

    def spread(self, arm: str) -> Spread:
        """Return the numbers of an arm."""
        return Spread(np.array(list(self.arms[arm].values()), dtype=np.float64), list(self.arms[arm]))

    @property
    def known(self) -> bool:
        """Whether any arm has a number."""
        return any(self.spread(arm).known.size for arm in self.arms)

    @property
    def baselines(self) -> list[str]:
        """The arms with which others are compared: `none` or the first arm, and the fresh agent."""
        methods = [arm for arm in self.arms if arm != FRESH]
        untouched = [arm for arm in methods if arm.split(" + ")[0] == NONE]  # a tuned `none` has its own settings
        plain = NONE if NONE in methods else next(iter([*untouched, *methods]), FRESH)
        return [arm for arm in dict.fromkeys((plain, FRESH)) if arm in self.arms]


@dataclass(frozen=True, eq=False)
class Difference:
    """The difference between one arm and a baseline in one measure, for the seeds that both have.

    `p_holm` is the p-value of the t test, corrected over all arms that are compared with this baseline in this measure;
    None without a test.
    """

    measure: Measure
    arm: str
    baseline: str
    by_seed: dict[int, float]
    paired: PairedDifference
    p_holm: float | None = None

    @property
    def significant(self) -> bool:
        """Whether the corrected p is below .05."""
        return self.p_holm is not None and self.p_holm < LEVEL

    @property
    def interval(self) -> Number:
        """The mean and its interval, shown as `112 [85, 139]`, in % if the measure is a share."""
        planned = len(self.measure.arms[self.arm].keys() | self.measure.arms[self.baseline].keys())
        ends, seeds = (self.paired.low, self.paired.high), some_of(self.paired.n, planned)
        return Number(self.paired.mean, *ends, self.by_seed, self.measure.form, seeds)

    @property
    def untested(self) -> str:
        """The words on several seeds without a test, from which nothing can be concluded; "" for other differences."""
        if self.paired.n < 2 or self.p_holm is not None:
            return ""
        why = ": too few seeds, or too coarse numbers, to conclude" if self.paired.mean else ""
        return f"{replace(self.interval, seeds='')}{self.measure.unit} in every seed{why}"

    @property
    def seeds_needed(self) -> Number | None:
        """The number of seeds needed for a significant difference, shown up to 100; None if unknown."""
        return None if self.paired.p_t is None else Number(known(self.paired.seeds_needed), form=ENOUGH)


def lead(measures: Iterable[Measure], name: str) -> list[Measure]:
    """Return the measures with those of one family first: the one that was declared to lead the report."""
    return sorted(measures, key=lambda measure: measure.group != name)


def missing_lead(measures: Iterable[Measure], name: str) -> list[str]:
    """Return a note if no measure is of the family that was declared to lead the report, or []."""
    if not name or any(measure.group == name for measure in measures):
        return []
    return [f"the report was to lead with {name}, but these runs have no such number"]


def variants_of(data: ComparisonData) -> dict[str, dict[str, str]]:
    """Return which arms are compared with each other: variant as text → arm → label in the data.

    Arms are compared within their variant. If every variant has only one arm, these are compared with each other.
    """
    variants: dict[str, dict[str, str]] = {}
    for label in data.arms:
        arm, variant = data.point(label)
        variants.setdefault(variant_text(variant), {})[arm] = label
    one_arm_each = all(len(arms) == 1 for arms in variants.values())
    return {"": {label: label for label in data.arms}} if one_arm_each else variants


def measures_of(
    data: ComparisonData,
    name: str,
    numbers: Mapping[str, Spread],
    percent: bool = False,
    shares: Mapping[str, Number] | None = None,
) -> list["Measure"]:
    """Return a measure for each variant. `numbers` and `shares` are by label in the data."""
    shares, measures = shares or {}, []
    for variant, labels in variants_of(data).items():
        of_arms = {arm: numbers[label].by_seed for arm, label in labels.items() if label in numbers}
        points = {arm: data.point(label) for arm, label in labels.items()}
        of_fresh = {arm: shares[label] for arm, label in labels.items() if label in shares}
        measures.append(Measure(name, of_arms, percent, variant, points, shares=of_fresh))
    return measures


def group_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the items by their keys, in the order in which the keys come first."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def differences(measures: Sequence[Measure]) -> list[Difference]:
    """Return all differences of arms to `none` (or to the first arm) and to the fresh agent, for shared seeds.

    The fresh agent itself is not compared with the baseline, because it is not a method.
    """
    found: list[Difference] = []
    for measure in measures:
        for baseline in measure.baselines:
            found += _compare(measure, [(arm, baseline) for arm in measure.arms if arm not in (baseline, FRESH)])
    return found


def pairwise_differences(measure: Measure) -> list[Difference]:
    """Return the differences between all pairs of arms that are not baselines. p is corrected over these pairs."""
    others = [arm for arm in measure.arms if arm not in measure.baselines]
    return _compare(measure, [(arm, first) for first, arm in combinations(others, 2)])


def _compare(measure: Measure, pairs: Sequence[tuple[str, str]]) -> list[Difference]:
    """Return the differences of these pairs (arm, baseline). p is corrected over all of them."""
    compared = []
    for arm, baseline in pairs:
        of_arm, of_baseline = measure.arms[arm], measure.arms[baseline]
        if seeds := [seed for seed in of_arm if np.isfinite(of_arm[seed] - of_baseline.get(seed, np.nan))]:
            values, zeros = np.array([(of_arm[seed], of_baseline[seed]) for seed in seeds]).T
            by_seed = dict(zip(seeds, (values - zeros).tolist(), strict=True))
            compared.append(
                Difference(measure, arm, baseline, by_seed, paired_difference(values, zeros, comparisons=len(pairs)))
            )
    p_values = [difference.paired.p_t for difference in compared]
    corrected = holm([1.0 if p is None else p for p in p_values]).tolist()
    return [
        replace(difference, p_holm=None if p is None else of_family)
        for difference, p, of_family in zip(compared, p_values, corrected, strict=True)
    ]


def difference_tables(compared: Sequence[Difference]) -> list[Table]:
    """Return one table per baseline: differences by seed, their means and tests."""
    by_baseline = group_by(compared, lambda difference: difference.baseline)
    return [_table(baseline, group) for baseline, group in by_baseline.items()]


def _table(baseline: str, compared: Sequence[Difference]) -> Table:
    columns: Columns = {
        "arm": [difference.arm for difference in compared],
        "variant": [difference.measure.variant for difference in compared],
        "measure": [difference.measure.heading for difference in compared],
        "difference": [difference.interval for difference in compared],
        "p (Holm)": [Number(known(difference.p_holm), form=P_VALUE) for difference in compared],
        "p (signs)": [Number(known(difference.paired.p_sign_flip), form=P_VALUE) for difference in compared],
        "seeds needed": [difference.seeds_needed for difference in compared],
        Label("difference", "by seed"): [
            BySeed(difference.by_seed, difference.measure.form) if difference.paired.n > 1 else None
            for difference in compared
        ],
    }
    meanings = dict.fromkeys(difference.measure.meaning for difference in compared)
    words = " ".join([over_seeds(max(difference.paired.n for difference in compared)), *filter(None, meanings)])
    return Table.from_columns(f"Difference to {baseline_name(baseline)}", columns, words, about=ABOUT)


def verdict(compared: Sequence[Difference]) -> list[str]:
    """Return one sentence per arm and baseline, with significant differences and the measures without one.

    Significant means a corrected p below .05. An interval that excludes 0 is not enough.
    """
    return list(map(sentence_of, by_arm(compared)))


def by_arm(compared: Sequence[Difference]) -> list[list[Difference]]:
    """Return the differences in all measures of each arm to each baseline, by variant."""
    groups = group_by(compared, lambda difference: (difference.baseline, difference.measure.variant, difference.arm))
    return list(groups.values())


def sentence_of(group: Sequence[Difference]) -> str:
    """Return the sentence on one arm."""
    first, counts = group[0], sorted({difference.paired.n for difference in group})
    seeds = " to ".join(str(n) for n in dict.fromkeys((counts[0], counts[-1])))
    variant = f"{first.measure.variant}: " if first.measure.variant else ""
    who = f"{variant}{first.arm} against {baseline_name(first.baseline)}, {seeds} seed{'s' if counts[-1] > 1 else ''}: "
    if counts[-1] == 1:
        return f"{who}any difference may be due to chance."
    significant = [
        f"{difference.measure.name} is {'higher' if difference.paired.mean > 0 else 'lower'}: {difference.interval}"
        f"{difference.measure.unit} (p after Holm: {P_VALUE.text(difference.p_holm)})"
        for difference in group
        if difference.significant
    ]
    names = [
        f"{difference.measure.name} (seeds needed: {difference.seeds_needed})"
        for difference in group
        if not difference.significant and difference.p_holm is not None
    ]
    others = [f"no significant difference in {', '.join(names)}"] if names else []
    others += [
        f"{difference.measure.name} differs by {difference.untested}" for difference in group if difference.untested
    ]
    return f"{who}{'; '.join([*significant, *others])}."


def differences_json(compared: Sequence[Difference]) -> dict[str, Any]:
    """Return differences for scores.json.

    Keys: `differences`, a list with `measure`, `variant` (as text; "" if nothing varies), `arm`, `baseline`, `seeds`,
    `per_seed` (arm − baseline; shares are not in %), `mean`, `interval` (Student's, 95 %), `p_t`, `p_holm`,
    `p_sign_flip` (null below six seeds) and `seeds_needed` (null above 10,000). With one seed, all numbers after `mean`
    are null, and so are all but `p_sign_flip` if the difference is the same in every seed.
    """
    rows = [
        {
            "measure": difference.measure.name,
            "variant": difference.measure.variant,
            "arm": difference.arm,
            "baseline": difference.baseline,
            "seeds": list(difference.by_seed),
            "per_seed": list(difference.by_seed.values()),
            "mean": difference.paired.mean,
            "interval": None if difference.paired.low is None else [difference.paired.low, difference.paired.high],
            "p_t": difference.paired.p_t,
            "p_holm": difference.p_holm,
            "p_sign_flip": difference.paired.p_sign_flip,
            "seeds_needed": difference.paired.seeds_needed,
        }
        for difference in compared
    ]
    return {"differences": rows}


def baseline_name(baseline: str) -> str:
    """Return the name of a baseline in sentences."""
    return "the fresh agent" if baseline == FRESH else baseline


def name_baselines(measures: Sequence[Measure]) -> str:
    """Return the names of the arms with which others are compared, for sentences. Tuned ones differ by variant."""
    return " or ".join(dict.fromkeys(baseline_name(measure.baselines[0]) for measure in measures))
