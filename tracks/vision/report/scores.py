"""Scores of classifiers, per arm: online and test accuracy, retention and transfer."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.experiments.history.collect import notes_of_unfinished
from supple.experiments.history.data import ComparisonData, Row, RunData, Segment, interventions_in
from supple.metrics import (
    average_accuracy,
    backward_transfer,
    forward_transfer,
    online_generalization_gap,
)
from supple.reports.tables.differences import Measure, lead, measures_of, variants_of
from supple.reports.tables.metrics import means_at_events
from supple.reports.tables.old_tasks import OldTasks, old_tasks_json
from supple.reports.tables.statistics import NAN, Spread, mean_of_known, spread_json
from supple.tracks.vision.presets import ACC, FINAL, MEASURES, ONLINE, TEST

from .shocks import ShockScores, score_shocks, windows_by_factor


@dataclass(eq=False)
class ClassifierArm:
    """The scores of one arm. Accuracies are shares in [0, 1].

    tasks: number of finished tasks that are scored, (seeds,). measures: by the names of
    `numbers_of`. shocks: by factor γ. at_events: means over interventions, before and after. replaced: units that each
    method replaced, mean over seeds.
    """

    seeds: tuple[int, ...]
    tasks: NDArray[np.int_]
    measures: dict[str, Spread]
    shocks: dict[float, ShockScores]
    interventions: int
    at_events: dict[str, float]
    replaced: dict[str, float]


def notes_of(data: ComparisonData, arms: Mapping[str, ClassifierArm]) -> list[str]:
    """Return sentences on what is missing."""
    notes = [*data.notes, *notes_of_unfinished(data, "its numbers are of the tasks that it has finished")]
    if len({count for arm in arms.values() for count in arm.tasks}) > 1:
        notes.append(
            "the runs finished different numbers of tasks, so their rows are means over different tasks; differences "
            "are given only between the runs that finished the most, and the curves by task show all"
        )
    if data.first.settings.shock_every and not any(arm.shocks for arm in arms.values()):
        notes.append("no shock has been followed by tests up to the next yet, or --eval-epochs is not 1")
    return notes


def compared_measures(data: ComparisonData, arms: Mapping[str, ClassifierArm]) -> list[Measure]:
    """Return the accuracies by which arms are compared, within each variant: the one that leads the report first.

    Runs that have finished fewer tasks than others are left out: accuracies over different tasks differ by the tasks.
    """
    leads, fork = data.first.leads, data.fork_step
    usual = (ONLINE, FINAL) if fork else (ONLINE, TEST, ACC)
    finished: dict[str, NDArray[np.bool_]] = {}
    for labels in variants_of(data).values():
        most = max(arms[label].tasks.max() for label in labels.values())
        finished |= {label: arms[label].tasks == most for label in labels.values()}
    measures: list[Measure] = []
    for title in (*usual, *(title for title in MEASURES if title == leads and title not in usual)):
        name = measure_name(title, fork)
        spreads = {
            label: Spread(np.where(known, arms[label].measures[name].values, NAN), arms[label].seeds)
            for label, known in finished.items()
            if known.any()
        }
        measures += measures_of(data, title, spreads, True)
    return lead(measures, leads)


def measure_name(title: str, fork: int | None) -> str:
    """Return the name in `numbers_of` of one of `MEASURES`, or "" for another title."""
    names = {ONLINE: "online", TEST: "test", ACC: "acc", FINAL: "final_after" if fork else "last_test"}
    return names.get(title, "")


def numbers_of(run: RunData, fork: int = 0) -> dict[str, float]:
    """Return the scores of a seed on the tasks that ended after step `fork`; NaN for those that were not measured.

    online: total average online accuracy (Lillo & Cheney, eq. 5), the mean over all batches before their updates. test,
    last_test: test accuracy at the ends of tasks, the mean over tasks and that of the last. gap: mean over tasks of
    test accuracy − online accuracy (Table E3). acc, bwt, fwt: of a split stream (B.6), over all tasks up to the last
    finished one. fwt needs tests at the start of tasks (--eval-epochs), and compares with chance among all classes.
    best_after, final_after: test accuracy after the fork, including tests within tasks; NaN without a fork.
    """
    done = counted_outcomes(run, fork)
    online = np.array([row["online_accuracy"] for row in done], dtype=float)
    tests = np.array([row["test_accuracy"] for row in done], dtype=float)
    late = [value for _, value in accuracies_between(run, fork, np.inf)] if fork else []
    return {
        "online": float(np.average(online, weights=[row["updates"] for row in done])) if done else NAN,
        "test": float(tests.mean()) if done else NAN,
        "last_test": float(tests[-1]) if done else NAN,
        "gap": online_generalization_gap(tests, online) if done else NAN,
        **_retention(run),
        "best_after": max(late, default=NAN),
        "final_after": late[-1] if late else NAN,
    }


def online_accuracies(run: RunData) -> list[float]:
    """Return the online accuracy of each task, which is the area under its learning curve; NaN if it is unfinished."""
    by_task = {row["task"]: row["online_accuracy"] for row in run.outcomes}
    return [by_task.get(task.index, NAN) for task in run.tasks]


def counted_outcomes(run: RunData, since: int = 0) -> list[Row]:
    """Return the rows of tasks that finished after a step, in order. Of alternating tasks, only the hard ones count.

    Source: Lillo & Cheney 2025, Appendix E.
    """
    alternating = run.settings.stream == "alternating"
    rows = [row for row in run.outcomes if row["step"] > since and not (alternating and int(row["task"]) % 2)]
    return sorted(rows, key=lambda row: int(row["task"]))


def accuracies_between(run: RunData, low: float, high: float, task: Segment | None = None) -> list[tuple[float, float]]:
    """Return (step, test accuracy) of all tests at low < step ≤ high, within tasks and at their ends.

    Args:
        run: The run of one seed.
        low: A step, which does not count itself.
        high: A step, which counts.
        task: Only tests of this task. None: of all tasks.
    """
    rows = [row for row in (*run.metrics, *run.outcomes) if isinstance(row.get("test_accuracy"), (int, float))]
    return sorted(
        (float(row["step"]), float(row["test_accuracy"]))
        for row in rows
        if low < row["step"] <= high and (task is None or row.get("task") == task.index)
    )


def score_arm(runs: Sequence[RunData], fork: int) -> ClassifierArm:
    """Score an arm on its finished tasks. In a comparison, these are the tasks that ended after the fork."""
    measured = [numbers_of(run, fork) for run in runs]
    seeds = tuple(run.seed for run in runs)
    events = interventions_in(runs)
    replaced = {}
    for name in sorted({name for run in runs for name in run.logged if name.endswith("_replaced")}):
        last = [run.series(name)[1][-1:] for run in runs]
        replaced[name.split("/")[-1].removesuffix("_replaced")] = mean_of_known(np.concatenate(last))
    return ClassifierArm(
        seeds=seeds,
        tasks=np.array([len(counted_outcomes(run, fork)) for run in runs]),
        measures={name: Spread(np.array([*map(itemgetter(name), measured)]), seeds) for name in measured[0]},
        shocks={gamma: score_shocks(windows) for gamma, windows in windows_by_factor(runs).items()},
        interventions=len(events),
        at_events=means_at_events(events) | _curvature(runs, events, fork),
        replaced=replaced,
    )


def _retention(run: RunData) -> dict[str, float]:
    """Return ACC, BWT and FWT of a split stream, in which all tasks are tested at the end of each."""
    rows = [row.get("accuracies") for row in counted_outcomes(run)]
    if not rows or any(row is None or len(row) != i + 1 for i, row in enumerate(rows)):
        return {"acc": NAN, "bwt": NAN, "fwt": NAN}
    matrix = np.full((len(rows), len(rows)), np.nan)
    for i, row in enumerate(rows):
        matrix[i, : i + 1] = row
    starts = {task.start: task.index for task in run.tasks[1 : len(rows)]}
    for row in run.metrics:
        if "test_accuracy" in row and row.get("task") == starts.get(row["step"], -1):
            matrix[row["task"] - 1, row["task"]] = row["test_accuracy"]
    classes = re.search(r"(\d+) classes", str(run.spec.resolved.data))
    chance = 1 / int(classes[1]) if classes else NAN
    return {
        "acc": average_accuracy(matrix),
        "bwt": backward_transfer(matrix),
        "fwt": forward_transfer(matrix, np.full(len(rows), chance)),
    }


def _curvature(runs: Sequence[RunData], events: Sequence[Row], fork: int) -> dict[str, float]:
    """Return λ_max around the fork for arms without events: the last measurement before it and the first after it."""
    if not fork or any("lambda_max" in event.get("before", {}) for event in events):
        return {}
    before, after = [], []
    for run in runs:
        for name in (name for name in run.logged if name.endswith("/lambda_max")):
            steps, values = run.series(name)
            before += values[steps <= fork][-1:].tolist()
            after += values[steps > fork][:1].tolist()
    return {"lambda_max_before": mean_of_known(before), "lambda_max_after": mean_of_known(after)}


def to_json(data: ComparisonData, arms: Mapping[str, ClassifierArm], old_tasks: Sequence[OldTasks]) -> dict[str, Any]:
    """Return the entries of scores.json for one of its `benchmarks`, by stream and data set.

    Keys: `fork_step`, `total_updates`, `tasks`: as planned; `data`: the source in words; and
        `arms`: label → `seeds`, `tasks` (finished ones), the measures of `numbers_of` and, by factor
        γ, those of `shocks.ShockScores`, each with `mean`, `sd` (unbiased), `interval` (Student's, 95 %; null with one
        seed) and `per_seed`; `interventions`, `at_interventions`, `units_replaced`;
        and `old_tasks`, if there are any: see `old_tasks.old_tasks_json`.
    Accuracies are shares in [0, 1].
    """
    return {
        "fork_step": data.fork_step,
        "total_updates": data.total_steps,
        "tasks": len(data.first.tasks),
        "data": data.first.spec.resolved.data,
        "arms": {label: _arm_json(arm) | old_tasks_json(old_tasks, label) for label, arm in arms.items()},
    }


def _arm_json(arm: ClassifierArm) -> dict[str, Any]:
    return {
        "seeds": arm.seeds,
        "tasks": int(arm.tasks.min()),
        **{name: spread_json(spread) for name, spread in arm.measures.items()},
        "shocks": {
            f"{gamma:g}": {**vars(shock), "peak": spread_json(shock.peak), "area": spread_json(shock.area)}
            for gamma, shock in arm.shocks.items()
        },
        "interventions": arm.interventions,
        "at_interventions": arm.at_events,
        "units_replaced": arm.replaced,
    }
