"""From histories to numbers: plasticity score, final returns, generalization gap, interventions, per arm."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...metrics import Score, final_window_return, generalization_gap, iqm, plasticity_score
from .collect import ComparisonData, Row, RunData, Segment

Array = NDArray[np.float64]
FINAL = 0.15  # share of a task's steps that counts as its steady state (activations paper, section 7)


@dataclass(eq=False)
class ArmScores:
    """One arm's numbers. Shapes are (seeds, cycles, environments); NaN where nothing was measured.

    finals: mean return of the episodes that ended in the last 15 % of a task. tests: mean return on the held-out
    friction at the end of that task. gaps: finals − tests, 0 for failures. gap_change: IQM of the last minus the
    first cycle's gap over seeds and environments. exploded: physics exploded at least once in the task.
    plasticity: None where it cannot be told (see `score`). at_events: mean over all interventions.
    """

    seeds: tuple[int, ...]
    finals: Array
    tests: Array
    gaps: Array
    gap_change: float
    exploded: NDArray[np.bool_]
    explosions: int
    interventions: int
    at_events: dict[str, float]
    plasticity: Score | None = None

    @property
    def last(self) -> Array:
        """Final returns of the last cycle, (seeds, environments)."""
        return self.finals[:, -1]


@dataclass(eq=False)
class Scores:
    """All arms of a report. environments: one label for each position in the sequence."""

    environments: tuple[str, ...]
    cycles: int
    arms: dict[str, ArmScores]
    notes: list[str] = field(default_factory=list)


def score(data: ComparisonData) -> Scores:
    """Score every arm.

    An explosion anywhere in a (run, task) makes that cell a failure: the paper filters "any run resulting in a
    physics explosion" without saying how a run that recovered counts; this is the strict reading, one task wide.

    The plasticity score is relative to the runs shown: it is left out with fewer than two finished runs, whose
    returns span no scale. Unfinished runs do not enter it, and neither do environments in which no run finished
    an episode in its final window; a single run without one counts as a failure there. `notes` says all this.
    """
    labels = position_labels(data.first.tasks)
    cycles = 1 + max(task.cycle for task in data.first.tasks)
    arms = {label: _score_arm(runs, (len(runs), cycles, len(labels))) for label, runs in data.arms.items()}
    scores = Scores(labels, cycles, arms, list(data.notes))
    _add_plasticity(scores, data)
    return scores


def position_labels(tasks: Sequence[Segment]) -> tuple[str, ...]:
    """A label for each position in the sequence: the environment, numbered where it comes more than once."""
    names = [task.env for task in tasks if task.cycle == tasks[0].cycle]
    return tuple(
        name if names.count(name) == 1 else f"{name} ({names[: i + 1].count(name)})" for i, name in enumerate(names)
    )


def _score_arm(runs: Sequence[RunData], shape: tuple[int, int, int]) -> ArmScores:
    finals, tests = np.full(shape, np.nan), np.full(shape, np.nan)
    exploded = np.zeros(shape, dtype=bool)
    for seed, run in enumerate(runs):
        burst = {event.get("task") for event in run.of_kind("explosion")}
        evaluated = {r["task"]: r["eval/return_friction"] for r in run.metrics if _has_test(r)}
        for task in run.tasks:
            cell = seed, task.cycle, task.index % shape[2]
            own = run.episodes.tasks == task.index
            finals[cell] = final_window_return(
                run.episodes.steps[own], run.episodes.returns[own], task.start, task.end, FINAL
            )
            tests[cell] = evaluated.get(task.index, np.nan)
            exploded[cell] = task.index in burst or run.episodes.exploded[own].any()
    gaps = [generalization_gap(*cells) for cells in zip(finals, tests, exploded, strict=True)]
    changes = np.concatenate([gap.change for gap in gaps])
    changes = changes[~np.isnan(changes)]
    events = [event for run in runs for event in run.of_kind("intervention")]
    return ArmScores(
        seeds=tuple(run.seed for run in runs),
        finals=finals,
        tests=tests,
        gaps=np.stack([gap.gap for gap in gaps]),
        gap_change=iqm(changes) if changes.size else float("nan"),
        exploded=exploded,
        explosions=sum(_explosions(run) for run in runs),
        interventions=len(events),
        at_events=_event_means(events),
    )


def _add_plasticity(scores: Scores, data: ComparisonData) -> None:
    finished = {}
    for label, runs in data.arms.items():
        ends = [run.tasks[-1].end - FINAL * (run.tasks[-1].end - run.tasks[-1].start) for run in runs]
        finished[label] = np.array([run.last_step >= end for run, end in zip(runs, ends, strict=True)])
    seen = np.stack([np.isfinite(row) for arm in scores.arms.values() for row in arm.last]).any(axis=0)
    if sum(mask.sum() for mask in finished.values()) < 2:
        scores.notes.append("no plasticity score: it places runs on a common scale, and needs two finished ones")
        return
    if not seen.all():
        missing = ", ".join(np.array(scores.environments)[~seen])
        scores.notes.append(f"no run finished an episode in the last 15 % of {missing}: left out of the scores")
    if not seen.any():
        return
    arms = {label: arm for label, arm in scores.arms.items() if finished[label].any()}
    result = plasticity_score(
        {label: arm.last[finished[label]][:, seen] for label, arm in arms.items()},
        {label: arm.exploded[finished[label], -1][:, seen] for label, arm in arms.items()},
    )
    for label, arm in arms.items():
        arm.plasticity = result[label]


def _event_means(events: Sequence[Row]) -> dict[str, float]:
    """Mean SFE of the interventions, and mean DfI of the scale-free weights before and after."""
    columns = {
        "sfe": [event.get("change", {}).get("sfe") for event in events],
        "sfe_normalized": [event.get("change", {}).get("sfe_normalized") for event in events],
        "dfi_unscaled_before": [event.get("before", {}).get("dfi_unscaled") for event in events],
        "dfi_unscaled_after": [event.get("after", {}).get("dfi_unscaled") for event in events],
    }
    known = {name: [v for v in values if v is not None] for name, values in columns.items()}
    return {name: float(np.mean(values)) if values else float("nan") for name, values in known.items()}


def _explosions(run: RunData) -> int:
    """Explosions are logged as events and on their episodes; an old log may have only one of the two."""
    return max(len(run.of_kind("explosion")), int(run.episodes.exploded.sum()))


def _has_test(row: Row) -> bool:
    return "task" in row and isinstance(row.get("eval/return_friction"), (int, float))


def mean(values: Array, axis: int | None = None) -> Any:
    """Mean of what was measured; NaN, without a warning, where nothing was."""
    count = np.isfinite(values).sum(axis=axis)
    total = np.where(np.isfinite(values), values, 0.0).sum(axis=axis)
    return np.divide(total, count, out=np.full(np.shape(total), np.nan), where=count > 0)


def to_json(data: ComparisonData, scores: Scores) -> dict[str, Any]:
    """What scores.json holds; its keys are described in `build_report`. NaN becomes None."""
    config = data.first.config
    body = {
        "supple": config.get("supple"),
        "algorithm": config.get("algorithm"),
        "total_steps": data.first.total_steps,
        "fork_step": data.fork_step,
        "environments": scores.environments,
        "cycles": scores.cycles,
        "notes": scores.notes,
        "arms": {label: _arm_json(arm) for label, arm in scores.arms.items()},
    }
    strict: dict[str, Any] = _strict(body)
    return strict


def _arm_json(arm: ArmScores) -> dict[str, Any]:
    known, several = arm.plasticity, len(arm.seeds) > 1
    return {
        "seeds": arm.seeds,
        "plasticity_score": known and known.iqm,
        "plasticity_score_interval": [known.low, known.high] if known and several else None,
        "final_return": mean(arm.last, axis=0),
        "final_return_per_seed": arm.last,
        "train_return": arm.finals,
        "test_return": arm.tests,
        "generalization_gap": mean(arm.gaps, axis=0),
        "gap_change_iqm": arm.gap_change,
        "explosions": arm.explosions,
        "interventions": arm.interventions,
        "at_interventions": arm.at_events,
    }


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _strict(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
