"""What became of old tasks: the performance on each task after each task, and what it says of forgetting and transfer.

The definitions are those of `metrics.continual`, as means over tasks.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine.forks import FRESH
from ...experiments.history.collect import ComparisonData, RunData
from ...experiments.history.performance import performance_of
from ...metrics import intransigence, learning_curve_transfer, share_of_fresh, task_forgetting
from .cells import PERCENT, Form, Heading, Interval, Value, percent
from .differences import Difference, Measure, baseline_name, differences, group_by, variants_of
from .statistics import NAN, Spread, mean, mean_of_known, spread_json
from .table import Table, over_seeds

Array = NDArray[np.float64]
Areas = Callable[[RunData], Iterable[float]]
FINAL, NEW, FORGETTING, TRANSFER, GAIN, INTRANSIGENCE, ZERO_SHOT = MEASURES = (
    "final performance", "new tasks", "forgetting", "forward transfer", "area difference", "intransigence",
    "zero-shot transfer",
)  # fmt: skip
WORDS = {
    FINAL: "Final performance: after the last task, mean over all.",
    NEW: "New tasks: right after each, mean over the tasks that begin after the first and not before the fork.",
    FORGETTING: "Forgetting: right after each task minus after the last, mean over all but the last; negative: gained.",
    TRANSFER: "Forward transfer: (A − A_fresh) / (1 − A_fresh), mean over the new tasks, where A is the area under the "
    "learning curve of a task, divided by its steps; unstable as A_fresh nears 1. Area difference: A − A_fresh.",
    INTRANSIGENCE: "Intransigence: the fresh agent right after each of the new tasks minus the arm.",
    ZERO_SHOT: "Zero-shot transfer: right before each task, mean over all but the first.",
}
# In words: higher than that of the baseline, lower, or no significant difference.
SAID = {
    NEW: ("learns new tasks better than {}", "learns new tasks worse than {}",
          "does not learn new tasks significantly better or worse than {}"),
    FORGETTING: ("forgets more", "forgets less", "does not forget significantly more or less"),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class ArmTasks:
    """The performance of one arm on each task after each task. NaN was not measured.

    Attributes:
        label: The arm in the data, which has its name there.
        seeds: The seeds, along the first axis of all arrays.
        tasks: The names of the tasks.
        measured: As logged, (seeds, tasks, tasks): [:, j, i] is on task i after task j.
        scaled: The same on the scale of `OldTasks`.
        by_task: Measure → (seeds, tasks), with the tasks masked that do not count in it.
    """

    label: str
    seeds: tuple[int, ...]
    tasks: tuple[str, ...]
    measured: Array
    scaled: Array
    by_task: Mapping[str, "np.ma.MaskedArray[Any, np.dtype[np.float64]]"]

    def spread(self, measure: str) -> Spread:
        """Return the mean of a measure over the tasks that count in it. NaN if it is missing for one of them."""
        return Spread(np.ma.filled(self.by_task[measure].mean(axis=1), NAN), self.seeds)


@dataclass(frozen=True, eq=False)
class OldTasks:
    """The performance of all arms in one variant of the settings.

    `scale` says in words how it is scaled. `random` and `reference`, (tasks,), are what is scaled to 0 and 1; None for
    accuracies and scores, which are shares.
    """

    variant: str
    arms: Mapping[str, ArmTasks]
    scale: str = ""
    random: Array | None = None
    reference: Array | None = None

    @property
    def percent(self) -> bool:
        """Whether performance is a share, which is shown in %."""
        return self.random is None

    @property
    def form(self) -> Form:
        return PERCENT if self.percent else Form(decimals=2)


def read_old_tasks(data: ComparisonData, areas: Areas | None = None) -> list[OldTasks]:
    """Return what became of old tasks in each variant in which a run was evaluated on one.

    If the runs have logged the returns of random actions, their mean on a task is scaled to 0, and the mean return of
    the fresh agent right after the task to 1; without a fresh agent that of the best arm there. A task on which this is
    not above random actions counts in no measure.

    Args:
        data: The runs.
        areas: Returns the area under the learning curve of each task of a run, divided by its steps.
    """
    found = []
    for variant, labels in variants_of(data).items():
        runs = {arm: data.arms[label] for arm, label in labels.items()}
        size = 1 + max(run.tasks[-1].index for of_arm in runs.values() for run in of_arm)
        measured = {arm: np.stack([_matrix(run, size) for run in of_arm]) for arm, of_arm in runs.items()}
        if any(np.isfinite(of_arm[:, np.tri(size, k=-1, dtype=bool)]).any() for of_arm in measured.values()):
            found.append(_of_variant(variant, labels, runs, measured, data.fork_step or 0, areas))
    return found


def _of_variant(
    variant: str, labels: Mapping[str, str], runs: Mapping[str, Sequence[RunData]], measured: Mapping[str, Array],
    fork: int, areas: Areas | None,
) -> OldTasks:  # fmt: skip
    size = next(iter(measured.values())).shape[1]
    scale, random, reference = _scale(runs, measured)
    counted, place = np.ones(size, dtype=bool), np.arange(size)
    R: Mapping[str, Array] = measured
    A = {arm: np.stack([_vector(enumerate(areas(run) if areas else ()), size) for run in of_arm])
         for arm, of_arm in runs.items()}  # fmt: skip
    if random is not None and reference is not None:
        counted = ~(reference <= random)
        R, A = ({arm: share_of_fresh(values, reference, random) for arm, values in each.items()} for each in (R, A))
    longest = max((run.tasks for of_arm in runs.values() for run in of_arm), key=len)
    new = counted & (place > 0) & (_vector(((task.index, task.start) for task in longest), size) >= fork)
    counts = {FINAL: counted, FORGETTING: counted & (place < size - 1), ZERO_SHOT: counted & (place > 0)}
    arms = {}
    for arm, of_arm in runs.items():
        seeds = tuple(run.seed for run in of_arm)
        others = [run.seed for run in runs.get(FRESH, ()) if arm != FRESH]
        fresh_R, fresh_A = (_aligned(each.get(FRESH), others, seeds, each[arm]) for each in (R, A))
        learned, before = R[arm].diagonal(axis1=1, axis2=2), R[arm].diagonal(1, 1, 2)
        by_task = {
            FINAL: R[arm][:, -1],
            NEW: learned,
            FORGETTING: np.stack([task_forgetting(seed) for seed in R[arm]]),
            TRANSFER: learning_curve_transfer(A[arm], mean(A[FRESH], axis=0) if others else NAN),
            GAIN: A[arm] - fresh_A,
            INTRANSIGENCE: np.stack(list(map(intransigence, R[arm], fresh_R.diagonal(axis1=1, axis2=2)))),
            ZERO_SHOT: np.pad(before, ((0, 0), (1, 0))) if random is not None else np.full_like(learned, NAN),
        }
        masked = {name: np.ma.masked_array(values, np.broadcast_to(~counts.get(name, new), values.shape))
                  for name, values in by_task.items()}  # fmt: skip
        names = tuple(task.name or task.env for task in of_arm[0].tasks)
        arms[arm] = ArmTasks(labels[arm], seeds, names, measured[arm], R[arm], masked)
    if not counted.all():
        numbers = ", ".join(str(task + 1) for task in np.flatnonzero(~counted))
        scale += f" Left out, since 1 would not be above 0: task {numbers}."
    return OldTasks(variant, arms, scale, random, reference)


def _scale(
    runs: Mapping[str, Sequence[RunData]], measured: Mapping[str, Array]
) -> tuple[str, Array | None, Array | None]:
    """Return the scale in words, and the returns of each task that are scaled to 0 and 1, if there are random ones."""
    size = next(iter(measured.values())).shape[1]
    rows = [row for of_arm in runs.values() for run in of_arm for row in run.of_kind("random")]
    if not rows:
        return "Accuracies and scores are as measured.", None, None
    by_task = group_by(rows, lambda row: int(row["task"]))
    random = _vector(
        ((task, mean_of_known(row["return"] for row in of_task)) for task, of_task in by_task.items()), size
    )
    learned = {arm: mean(values.diagonal(axis1=1, axis2=2), axis=0) for arm, values in measured.items()}
    reference = learned[FRESH] if FRESH in learned else np.fmax.reduce(list(learned.values()))
    who = "the fresh agent" if FRESH in learned else "the arm that was best there"
    words = f"Returns are scaled by task: 0 is that of random actions, 1 the mean of {who} right after the task."
    return words, random, reference


def old_tasks_table(found: Sequence[OldTasks]) -> Table:
    """Return the table of all measures, with one row per arm and variant."""
    rows = [(old, arm, of_arm) for old in found for arm, of_arm in old.arms.items()]
    columns: dict[Heading, list[Value]] = {
        "arm": [arm for _, arm, _ in rows],
        "variant": [old.variant for old, _, _ in rows],
        "seeds": [len(of_arm.seeds) for _, _, of_arm in rows],
    }
    headings = {name: percent(name) if found[0].percent else name for name in MEASURES}
    for name, heading in headings.items():
        columns[heading] = [Interval.of(of_arm.spread(name), old.form) for old, _, of_arm in rows]
    table = Table.from_columns("Old tasks", columns, turns=False)
    known = [words for name, words in WORDS.items() if headings[name] in table.header]
    scales, seeds = dict.fromkeys(old.scale for old in found), max(len(of_arm.seeds) for *_, of_arm in rows)
    words = " ".join([*sentences(found), *scales, *known, over_seeds(seeds)])
    return Table(table.title, table.header, table.rows, words, turns=False)


def sentences(found: Iterable[OldTasks]) -> list[str]:
    """Return for each arm, in words, whether it learns new tasks better than the baseline and whether it forgets more."""
    said = []
    for old in found:
        measures = [
            Measure(name, {arm: of_arm.spread(name).by_seed for arm, of_arm in old.arms.items()}, old.percent)
            for name in SAID
        ]
        compared = [each for each in differences(measures) if each.baseline == each.measure.baselines[0] != FRESH]
        for arm, both in group_by(compared, lambda each: each.arm).items():
            if len(both) == len(SAID):
                prefix = f"{old.variant}: " if old.variant else ""
                chance = "" if all(each.paired.n > 1 for each in both) else "; with 1 seed, this may be due to chance"
                said.append(f"{prefix}{arm} {' and '.join(map(_clause, both))}{chance}.")
    return said


def _clause(difference: Difference) -> str:
    """Return one half of a sentence, such as `forgets more (+0.30 [0.21, 0.39])`."""
    middle = difference.paired.mean
    unknown = middle == 0 or (difference.paired.n > 1 and not difference.significant)
    words = SAID[difference.measure.name][2 if unknown else middle < 0].format(baseline_name(difference.baseline))
    unit = " percentage points" if difference.measure.percent else ""
    return f"{words} ({'+' * (middle > 0)}{difference.interval}{unit})"


def old_tasks_json(found: Iterable[OldTasks], label: str) -> dict[str, Any]:
    """Return the entry `old_tasks` of an arm in scores.json, or {} if the arm was not evaluated on old tasks.

    Keys: `performance`, (seeds, after task, on task), as measured; `random` and `reference`, (tasks,), the returns that
    are scaled to 0 and 1 (null for accuracies and scores); `scaled`, like `performance`; and each of `MEASURES`, on
    that scale, with `mean`, `sd`, `interval`, `per_seed` and `by_task`, (seeds, tasks), null for tasks that do not
    count in it.
    """
    for old, own in ((old, own) for old in found for own in old.arms.values() if own.label == label):
        body = {"performance": own.measured, "random": old.random, "reference": old.reference, "scaled": own.scaled}
        for name, values in own.by_task.items():
            by_task = {"by_task": np.ma.filled(values, NAN)}
            body[name.replace(" ", "_").replace("-", "_")] = spread_json(own.spread(name)) | by_task
        return {"old_tasks": body}
    return {}


def _matrix(run: RunData, size: int) -> Array:
    """Return the performance of a run on each task after each task, (size, size): [j, i] is on task i after task j."""
    found = np.full((size, size), NAN)
    for row in performance_of(run):
        found[row["after"], row["on"]] = NAN if row["value"] is None else row["value"]
    return found


def _vector(values: Iterable[tuple[int, float]], size: int) -> Array:
    """Return numbers by their places, (size,). NaN where there is none."""
    found = np.full(size, NAN)
    for place, value in values:
        found[place] = value
    return found


def _aligned(values: Array | None, seeds: Sequence[int], wanted: Sequence[int], like: Array) -> Array:
    """Return the values of the wanted seeds, like `like`. NaN for those that are not among `seeds`."""
    found = np.full_like(like, NAN)
    for i, seed in enumerate(wanted):
        if values is not None and seed in seeds:
            found[i] = values[seeds.index(seed)]
    return found
