"""What became of old tasks: the performance on each task after each task, and what it says of forgetting and transfer.

The definitions are those of `metrics.continual`, as means over tasks.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.engine.forks import FRESH
from supple.experiments.history.data import ComparisonData, RunData
from supple.experiments.history.performance import performance_of
from supple.metrics import Array, as_array, intransigence, learning_curve_transfer, share_of_fresh, task_forgetting

from .cells import Form, Heading, Number, percent
from .differences import Measure, variants_of
from .statistics import NAN, Spread, mean, spread_json
from .table import Columns, Table, over_seeds

Areas = Callable[[RunData], ArrayLike]
FINAL, NEW, FORGETTING, KEPT, TRANSFER, GAIN, INTRANSIGENCE, ZERO_SHOT = MEASURES = (
    "final performance", "new tasks", "forgetting", "kept", "learning-curve transfer", "area difference",
    "intransigence", "zero-shot transfer",
)  # fmt: skip
WORDS = {
    FINAL: "Final performance: after the last task, mean over all.",
    NEW: "New tasks: right after each, mean over the tasks that begin after the first and not before the fork.",
    FORGETTING: "Forgetting: right after each task minus after the last, mean over all but the last; negative: gained.",
    KEPT: "Kept: after the last task, mean over all but it. An arm that learned more may forget more and keep more.",
    TRANSFER: "Learning-curve transfer: (A − A_fresh) / (1 − A_fresh), mean over the new tasks, where A is the area "
    "under the curve of a task, divided by its steps; unstable as A_fresh nears 1. Area difference: A − A_fresh.",
    INTRANSIGENCE: "Intransigence: the fresh agent right after each of the new tasks minus the arm.",
    ZERO_SHOT: "Zero-shot transfer: right before each task, mean over all but the first.",
}
COMPARED = (NEW, FORGETTING, KEPT)


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
class Scale:
    """The scale of performance, in words and with the mean returns that are 0 and 1 on it, (tasks,).

    `random` and `reference` are None for values that are as measured. `counted` has the tasks that count, and `percent`
    says whether performance is a share, which is shown in %.
    """

    words: str
    counted: NDArray[np.bool_]
    random: Array | None = None
    reference: Array | None = None
    percent: bool = False

    @property
    def form(self) -> Form:
        return Form(decimals=1, scale=100.0) if self.percent else Form() if self.random is None else Form(decimals=2)

    def apply(self, values: Array, random: Array) -> Array:
        """Return the performance, (…, tasks), on this scale. `random` has the seeds' own zeros, NaN if not measured."""
        if self.random is None or self.reference is None:
            return values
        return share_of_fresh(values, self.reference, np.where(np.isnan(random), self.random, random))


@dataclass(frozen=True, eq=False)
class OldTasks:
    """The performance of all arms in one variant of the settings."""

    variant: str
    scale: Scale
    arms: Mapping[str, ArmTasks]

    @property
    def known(self) -> bool:
        """Whether there is any performance on this scale."""
        return any(np.isfinite(own.scaled).any() for own in self.arms.values())


def read_old_tasks(data: ComparisonData, areas: Areas | None = None, shares: bool = True) -> list[OldTasks]:
    """Return what became of old tasks in each variant in which a run was evaluated on one.

    If the runs have logged the returns of random actions, those of a seed are scaled to 0 for it, so that intervals
    over seeds have their error. The mean return of the fresh agent right after the task is 1; without a fresh agent
    that of the best arm there. A task on which this is not above random actions of all seeds counts in no measure.

    Args:
        data: The runs.
        areas: Returns the area under the learning curve of each task of a run, divided by its steps.
        shares: Whether results that have no returns of random actions are shares, in [0, 1].
    """
    found = (_of_variant(data, variant, labels, areas, shares) for variant, labels in variants_of(data).items())
    return [old for old in found if old is not None]


def _of_variant(
    data: ComparisonData, variant: str, labels: Mapping[str, str], areas: Areas | None, shares: bool
) -> OldTasks | None:
    runs = {arm: list(map(attrgetter("as_logged"), data.arms[label])) for arm, label in labels.items()}
    tasks = max((run.tasks for of_arm in runs.values() for run in of_arm), key=len)
    place = np.arange(len(tasks))
    measured = {arm: _stack(_matrix, of_arm, len(tasks)) for arm, of_arm in runs.items()}
    if not any(np.isfinite(R[:, place[:, None] > place]).any() for R in measured.values()):
        return None
    zeros = {
        run.seed: logged_returns(run, "random") for run in chain.from_iterable(runs.values()) if run.of_kind("random")
    }
    random = {arm: _stack(lambda run: zeros.get(run.seed, ()), of_arm, len(tasks)) for arm, of_arm in runs.items()}
    scale = _scale(np.concatenate([*random.values()]), measured, shares)
    R = {arm: scale.apply(values, random[arm][:, None]) for arm, values in measured.items()}
    A = {arm: scale.apply(_stack(areas, of_arm, len(tasks)), random[arm]) for arm, of_arm in runs.items()}
    later = scale.counted & (place > 0)
    new = later & [task.start >= (data.fork_step or data.first.spec.start.step) for task in tasks]
    old = scale.counted & (place < place[-1])
    counts = {FINAL: scale.counted, FORGETTING: old, KEPT: old, ZERO_SHOT: later}
    arms = {}
    for arm, of_arm in runs.items():
        fresh = runs.get(FRESH, ()) if arm != FRESH else ()
        R_fresh, A_fresh = (_of_seeds(of_arm, fresh, each.get(FRESH, each[arm])) for each in (R, A))
        by_task = {
            FINAL: R[arm][:, -1],
            NEW: _learned(R[arm]),
            FORGETTING: np.stack(list(map(task_forgetting, R[arm]))),
            KEPT: R[arm][:, -1],
            TRANSFER: learning_curve_transfer(A[arm], mean(A[FRESH], axis=0) if fresh else NAN),
            GAIN: A[arm] - A_fresh,
            INTRANSIGENCE: np.stack(list(map(intransigence, R[arm], _learned(R_fresh)))),
            ZERO_SHOT: np.pad(R[arm].diagonal(1, 1, 2) + (NAN if scale.random is None else 0), ((0, 0), (1, 0))),
        }
        masked = {
            name: np.ma.masked_array(values, np.broadcast_to(~counts.get(name, new), values.shape))
            for name, values in by_task.items()
        }
        seeds, names = tuple(run.seed for run in of_arm), tuple(task.name or task.env for task in of_arm[0].tasks)
        arms[arm] = ArmTasks(labels[arm], seeds, names, measured[arm], R[arm], masked)
    return OldTasks(variant, scale, arms)


def _scale(random: Array, measured: Mapping[str, Array], shares: bool) -> Scale:
    """Return the scale of the performance of all arms. `random` are the returns of random actions, (runs, tasks)."""
    learned = {arm: mean(_learned(R), axis=0) for arm, R in measured.items()}
    size = len(next(iter(learned.values())))
    if np.isnan(random).all():
        what = "Accuracies and scores" if shares else "Values"
        return Scale(f"{what} are as measured.", np.ones(size, dtype=bool), percent=shares)
    reference = learned[FRESH] if FRESH in learned else np.fmax.reduce(list(learned.values()))
    counted = ~(reference <= np.fmax.reduce(random))
    who = "the fresh agent" if FRESH in learned else "the arm that was best there"
    words = f"Returns are scaled by task: 0 is the mean of random actions with the same seed, 1 that of {who} "
    words += "right after the task, mean over seeds."
    if not counted.all():
        words += f" Left out, since 1 would not be above 0: task {', '.join(map(str, 1 + np.flatnonzero(~counted)))}."
    return Scale(words, counted, mean(random, axis=0), reference)


def old_tasks_tables(found: Sequence[OldTasks]) -> list[Table]:
    """Return a table of all measures, with one row per arm and variant, or [] if there is none."""
    if not any(old.known for old in found):
        return []
    rows = [(old, arm, of_arm) for old in found for arm, of_arm in old.arms.items()]
    columns: Columns = {
        "arm": [arm for _, arm, _ in rows],
        "variant": [old.variant for old, _, _ in rows],
        "seeds": [len(of_arm.seeds) for _, _, of_arm in rows],
    }
    headings = {name: percent(name) if found[0].scale.percent else name for name in MEASURES}
    for name, heading in headings.items():
        columns[heading] = [Number.of(of_arm.spread(name), old.scale.form) for old, _, of_arm in rows]
    about: dict[Heading, str] = {headings[name]: words for name, words in WORDS.items()}
    about["arm"] = " ".join(dict.fromkeys(old.scale.words for old in found))
    words = over_seeds(max(len(of_arm.seeds) for *_, of_arm in rows))
    return [Table.from_columns("Old tasks", columns, words, about=about)]


def old_tasks_measures(found: Iterable[OldTasks]) -> list[Measure]:
    """Return the numbers by which arms are compared in words: on new tasks, forgetting, and what is kept."""
    measures = []
    for old in found:
        arms = {arm: of_arm for arm, of_arm in old.arms.items() if arm != FRESH}
        for name in COMPARED:
            by_seed = {arm: of_arm.spread(name).by_seed for arm, of_arm in arms.items()}
            measures.append(Measure(name, by_seed, old.scale.percent, old.variant))
    return measures


def old_tasks_json(found: Iterable[OldTasks], label: str) -> dict[str, Any]:
    """Return the entry `old_tasks` of an arm in scores.json, or {} if the arm was not evaluated on old tasks.

    Keys: `performance`, (seeds, after task, on task), as measured; `random` and `reference`, (tasks,), the returns that
    are scaled to 0 and 1 (null for accuracies and scores); `scaled`, like `performance`; and each of `MEASURES`, on
    that scale, with `mean`, `sd`, `interval`, `per_seed` and `by_task`, (seeds, tasks), null for tasks that do not
    count in it.
    """
    for old in found:
        for own in (own for own in old.arms.values() if own.label == label):
            body: dict[str, Any] = {"performance": own.measured, "scaled": own.scaled}
            body |= {"random": old.scale.random, "reference": old.scale.reference}
            for name, values in own.by_task.items():
                by_task = {"by_task": np.ma.filled(values, NAN)}
                body |= {name.replace(" ", "_").replace("-", "_"): spread_json(own.spread(name)) | by_task}
            return {"old_tasks": body}
    return {}


def _matrix(run: RunData) -> Array:
    """Return the performance of a run, (tasks, tasks): [j, i] is on task i after task j."""
    found = np.full((len(run.tasks), len(run.tasks)), NAN)
    for row in performance_of(run):
        found[row["after"], row["on"]] = NAN if row["value"] is None else row["value"]
    return found


def logged_returns(run: RunData, event: str) -> Array:
    """Return the returns by task that events of a kind have logged, such as `random`: (tasks,), NaN for none."""
    logged = {row["task"]: row["return"] for row in run.of_kind(event)}
    return np.array([logged.get(task.index) for task in run.tasks], dtype=np.float64)


def _stack(function: Areas | None, runs: Sequence[RunData], size: int) -> Array:
    """Return what a function returns of each run, with NaN for the tasks that a run does not have."""
    found = [as_array(function(run) if function else ()) for run in runs]
    return np.stack([np.pad(of_run, (0, size - len(of_run)), constant_values=NAN) for of_run in found])


def _of_seeds(wanted: Iterable[RunData], runs: Iterable[RunData], values: Array) -> Array:
    """Return the values of `runs` that belong to the seeds of the wanted runs. NaN for seeds without one."""
    by_seed = {run.seed: of_run for run, of_run in zip(runs, values, strict=False)}
    return np.stack([by_seed.get(run.seed, np.full_like(values[0], NAN)) for run in wanted])


def _learned(R: Array) -> Array:
    """Return the performance on each task right after it, (seeds, tasks)."""
    return R.diagonal(axis1=1, axis2=2)
