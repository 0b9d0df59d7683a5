"""Read the logs of a run directory, or of a comparison of arms that were forked from common trunks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache, partial
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from supple.engine.forks import NONE
from supple.engine.kinds import Kind
from supple.engine.spec import FILE, read_spec
from supple.engine.storage import checkpoint
from supple.engine.storage.names import TRUNK
from supple.engine.storage.run_directory import CHECKPOINTS, require_ended
from supple.engine.storage.versions import describe_mixed
from supple.experiments.comparisons.folder import FILE as COMPARISON
from supple.experiments.comparisons.folder import files_of_runs, read_comparison
from supple.experiments.comparisons.grid import Point, variant_text
from supple.experiments.queue.queue import FAILED, OUTCOME, read_outcome
from supple.registry.errors import UsageError

from .data import ComparisonData, Episodes, RunData, Segment
from .logs import LOGS, Row, read_log
from .stacks import Logs, logs_of_seed

RUN_FILES = "config.json, episodes.jsonl (or tasks.jsonl), metrics.jsonl and events.jsonl"


def kind_of(path: Path) -> Kind:
    """Return the kind of a run or a comparison.

    Raises:
        UsageError: It is neither.
        RunError: A file in it is damaged.
    """
    if (path / COMPARISON).is_file():
        return read_comparison(path).kind_row
    if (path / FILE).is_file():
        return read_spec(path).kind_row
    raise UsageError(f"{path} is neither a run directory ({RUN_FILES}) nor a comparison directory ({COMPARISON})")


def load(path: Path, since_fork: bool = False) -> ComparisonData:
    """Read a run directory or a comparison directory. In a comparison, every arm in every variant counts as an arm.

    Unfinished runs are read as far as they came. Until an arm starts, the trunks count as arms. `notes` lists runs that
    have not started.

    Args:
        path: The directory.
        since_fork: Whether the runs begin where they were forked from their trunks, and count their steps from there.

    Raises:
        UsageError: The directory is neither, or a log in it is damaged.
        RunError: Another file in it is damaged.
    """
    path = Path(path)
    kind_of(path)
    if (path / COMPARISON).is_file():
        return _load_comparison(path, since_fork)
    runs = load_runs(path)
    spec = runs[0].spec
    label = spec.labels.arm or ", ".join(spec.resolved.hooks) or NONE
    notes = [*notes_of_seeds({label: runs}), *describe_mixed({path.name: spec.resolved.versions})]
    return ComparisonData(path, {label: runs}, notes=notes, points={label: Point(label, spec.labels.variant)})


def _load_comparison(path: Path, since_fork: bool) -> ComparisonData:
    plan = read_comparison(path)
    specs = {file.parent: read_spec(file.parent) for file in files_of_runs(path, FILE)}
    fork = plan.fork_step or 0
    trunks = {folder.parent: folder for folder, spec in specs.items() if spec.labels.arm is None}
    for folder in trunks.values():
        _require_whole(folder, fork)
    logs_of_trunk = cache(_logs_until)  # shared by all arms of its seed
    found: dict[str, tuple[Point, list[RunData]]] = {point.label: (point, []) for point in plan.points}
    for folder, spec in specs.items():
        if spec.labels.arm is not None:
            point = Point(spec.labels.arm, spec.labels.variant)
            trunk = trunks.get(folder.parent, trunks.get(folder.parents[1]))  # its own, or one that variants share
            # of steps that count from the fork, only the results of earlier tasks come before it
            logs = partial(logs_of_trunk, spec.start.step, trunk, LOGS[-1:] if since_fork else LOGS)
            runs = load_runs(folder, logs if trunk else None)
            found.setdefault(point.label, (point, []))[1].extend(map(count_from_start, runs) if since_fork else runs)
    all_points = [point for point, _ in found.values()]
    labels = [_short_label(point, all_points) for point in all_points] if since_fork else list(found)
    points = dict(zip(labels, all_points, strict=True))
    arms = {label: by_seed(runs) for label, (_, runs) in zip(labels, found.values(), strict=True)}
    notes = []
    for label, runs in arms.items():
        if missing := sorted(set(plan.seeds) - {run.seed for run in runs}):
            notes.append(f"{label}: no run yet for seed {', '.join(map(str, missing))}")
    known = {str(folder.relative_to(path)): spec.resolved.versions for folder, spec in specs.items()}
    notes += [*notes_of_seeds(arms), *failures(path), *describe_mixed(known)]
    started = {label: runs for label, runs in arms.items() if runs}
    begun = by_seed(run for folder in trunks.values() for run in load_runs(folder)) if since_fork or not started else []
    if not started:  # the trunks count as arms
        points = {}
        for run in begun:
            started.setdefault(Point(TRUNK, run.spec.labels.variant).label, []).append(run)
    if not started:
        raise UsageError(f"{path}: no run has started yet; expected run directories such as seed-0/<arm>/config.json")
    if not since_fork:
        return ComparisonData(path, started, fork, notes, points=points)
    palette = tuple(dict.fromkeys(point.arm for point in points.values()))
    return ComparisonData(path, started, None, notes, palette, points, begun)


def _short_label(point: Point, among: Sequence[Point]) -> str:
    """Return a label of an arm: its variant, its name, or both, as far as they differ between these."""
    arms, variants = {each.arm for each in among}, {variant_text(each.variant) for each in among}
    words = [variant_text(point.variant) if len(variants) > 1 else "", point.arm if len(arms) > 1 else ""]
    return ", ".join(filter(None, words)) or point.arm


def count_from_start(run: RunData) -> RunData:
    """Return a run with steps counted from its own beginning, without the part that belongs to its trunk."""
    if not (start := run.spec.start.step):
        return run

    def shift(rows: list[Row]) -> list[Row]:
        return [{**row, "step": row["step"] - start} for row in rows]

    tasks = [replace(task, start=max(0, task.start - start), end=task.end - start) for task in run.tasks]
    return replace(
        run,
        tasks=tuple(task for task in tasks if task.end > 0),
        metrics=shift(run.metrics),
        events=shift(run.events),
        outcomes=shift(run.outcomes),
        whole=run,
    )


def by_seed(runs: Iterable[RunData]) -> list[RunData]:
    """Return the runs in the order of their seeds."""
    return sorted(runs, key=lambda run: run.seed)


def notes_of_seeds(arms: Mapping[str, Sequence[RunData]]) -> list[str]:
    """Return a line for each seed of a stack that diverged, and one if seeds were trained in stacks and alone.

    The float32 numbers of a seed in a stack and alone part by rounding, as those of two machines do.
    """
    runs = [(label, run) for label, of_arm in arms.items() for run in of_arm]
    notes = [f"{label}, seed {run.seed}: {run.diverged}" for label, run in runs if run.diverged]
    if len({bool(run.stack) for _, run in runs}) > 1:
        notes.append("some seeds were trained in a stack and others alone: their numbers part by rounding")
    return notes


def notes_of_unfinished(
    data: ComparisonData, left_out: str, needed: Callable[[RunData], float] = attrgetter("total_steps")
) -> list[str]:
    """Return a line for each run whose logs end before the step that `needed` returns, and what leaves it out."""
    return [
        f"{label}, seed {run.seed}: {'' if run.diverged else 'unfinished, '}its logs end at step "
        f"{run.last_step:,} of {run.total_steps:,}; {left_out}"
        for label, runs in data.arms.items()
        for run in runs
        if run.last_step < needed(run)
    ]


def failures(path: Path) -> list[str]:
    """Return one line for each failed run of a comparison, with its folder and the reason."""
    outcomes = {file.parent: read_outcome(file.parent) for file in files_of_runs(path, OUTCOME)}
    return [
        f"{folder.relative_to(path)} failed: {outcome.get('reason')}"
        for folder, outcome in outcomes.items()
        if outcome.get("outcome") == FAILED
    ]


def load_runs(path: Path, logs_of_trunk: Callable[[], Logs] | None = None) -> list[RunData]:
    """Return the run in a directory, or one run per seed if it trains several at once.

    `logs_of_trunk` returns the logs of the trunk up to the fork. Raises UsageError for a damaged log.
    """
    spec = read_spec(path)
    tasks = tuple(map(_read_task, spec.resolved.tasks))
    _require_whole(path, spec.end)
    shared = logs_of_trunk() if logs_of_trunk else {}
    logs = {name: shared.get(name, []) + read_log(path, name) for name in LOGS}
    seeds, histories = spec.seeds, []
    for seed in seeds:
        own = logs_of_seed(logs, seed, seeds) if len(seeds) > 1 else logs
        episodes = _as_arrays(own["episodes"])
        histories.append(RunData(path, spec, seed, tasks, episodes, own["metrics"], own["events"], own["tasks"]))
    return histories


def _require_whole(path: Path, end: int) -> None:
    """Raise RunError if logs of a run that has ended were changed since. Runs without checkpoints are not checked."""
    last = checkpoint.newest_step(checkpoints := path / CHECKPOINTS)
    if last >= end:
        lengths = checkpoint.lengths_of_logs(checkpoint.folder_of(checkpoints, last))
        require_ended(path, {name: length for name, length in lengths.items() if name in LOGS})


def _logs_until(fork: int, trunk: Path, names: Sequence[str]) -> Logs:
    """Return these logs of a trunk up to the fork. Later rows, if any, are not part of its arms' history."""
    logs: Logs = {}
    for name in names:
        logs[name] = [row for row in read_log(trunk, name) if row["step"] <= fork]
    return logs


def _read_task(task: Mapping[str, Any]) -> Segment:
    return Segment(**{field.name: task[field.name] for field in fields(Segment) if field.name in task})


def _as_arrays(rows: list[Row]) -> Episodes:
    count = len(rows)
    steps, returns = (np.fromiter(map(itemgetter(name), rows), np.float64, count) for name in ("step", "return"))
    tasks = np.fromiter([row.get("task", 0) for row in rows], np.int64, count)
    lengths = np.fromiter([row.get("length", np.nan) for row in rows], np.float64, count)
    exploded = np.fromiter([row.get("exploded", False) for row in rows], np.bool_, count)
    return Episodes(steps, tasks, returns, lengths, exploded)
