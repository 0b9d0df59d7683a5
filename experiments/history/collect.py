"""Read the logs of a run directory, or of a comparison of arms that were forked from common trunks."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from operator import itemgetter
from pathlib import Path

import numpy as np

from supple.engine.storage import checkpoint
from supple.engine.storage.names import TRUNK
from supple.engine.storage.run_directory import CHECKPOINTS, require_ended
from supple.engine.storage.versions import describe_mixed
from supple.experiments.comparisons.folder import files_of_runs
from supple.experiments.comparisons.grid import Point
from supple.registry.errors import RunError

from .data import ComparisonData, Episodes, RunData, Segment
from .logs import LOGS, Row, read_log
from .objects import read_object
from .stacks import Logs, logs_of_seed, stack_of

RUN_FILES = "config.json, episodes.jsonl (or tasks.jsonl), metrics.jsonl and events.jsonl"


def kind_of(path: Path) -> str:
    """Return the kind of a run or a comparison. Raises ValueError if it is neither, or a file in it is damaged."""
    for name in ("comparison.json", "config.json"):
        if (path / name).is_file():
            return str(read_object(path / name).get("algorithm", ""))
    raise ValueError(f"{path} is neither a run directory ({RUN_FILES}) nor a comparison directory (comparison.json)")


def load(path: Path) -> ComparisonData:
    """Read a run directory or a comparison directory. In a comparison, every arm in every variant counts as an arm.

    Unfinished runs are read as far as they came. Until an arm starts, the trunks count as arms. `notes` lists runs that
    have not started.

    Raises:
        ValueError: The directory is neither, or a file in it is damaged.
    """
    path = Path(path)
    kind_of(path)
    if (path / "comparison.json").is_file():
        return _load_comparison(path)
    runs = load_runs(path)
    label = runs[0].config.get("arm") or ", ".join(runs[0].config.get("hooks", [])) or "none"
    notes = [*notes_of_seeds({label: runs}), *describe_mixed({path.name: runs[0].config})]
    return ComparisonData(path, {label: runs}, notes=notes)


def _load_comparison(path: Path) -> ComparisonData:
    plan, configs = read_plan(path)
    fork = int(plan.get("fork_step", 0))
    trunks = {folder.parent: folder for folder, config in configs.items() if config.get("arm") is None}
    for folder in trunks.values():
        _require_whole(folder, configs[folder], fork)
    logs_of_trunk = cache(lambda trunk: _logs_until(fork, trunk))  # shared by all arms of its seed

    def load_arm(folder: Path) -> list[RunData]:
        trunk = trunks.get(folder.parent)
        return load_runs(folder, partial(logs_of_trunk, trunk) if trunk else None)

    variants, points = load_points(plan, configs, load_arm)
    arms = {Point(arm, variants[i]).label: by_seed(runs) for (i, arm), runs in points.items()}
    notes = [note for label, runs in arms.items() for note in missing_seeds(label, plan, runs)] + notes_of_seeds(arms)
    started = require_started(path, arms, (run for folder in trunks.values() for run in load_runs(folder)))
    return ComparisonData(path, started, fork, notes + notes_of_runs(path, configs))


def read_plan(path: Path) -> tuple[Row, dict[Path, Row]]:
    """Return the contents of comparison.json, and those of config.json for each run that has started, by folder."""
    configs = {file.parent: read_object(file) for file in files_of_runs(path, "config.json")}
    return read_object(path / "comparison.json"), configs


def load_points(
    plan: Row, configs: Mapping[Path, Row], load_arm: Callable[[Path], list[RunData]]
) -> tuple[list[Row], dict[tuple[int, str], list[RunData]]]:
    """Return the variants of a comparison, and the runs of each arm in each of them: (index, arm) → runs.

    The planned arms come first, with an empty list if they have no run. Trunks are left out.

    Args:
        plan: The contents of comparison.json.
        configs: Folder of a run → contents of its config.json.
        load_arm: Returns the runs in a folder.
    """
    variants, arms = list(plan.get("variants") or [{}]), list(map(str, plan.get("arms", [])))
    planned = [(i, arm) for i in range(len(variants)) for arm in arms]
    only = plan.get("only") or []
    points: dict[tuple[int, str], list[RunData]] = {(i, arm): [] for i, arm in planned if not only or [arm, i] in only}
    for folder, config in configs.items():
        if config.get("arm") is not None:
            if (variant := config.get("variant", {})) not in variants:
                variants.append(variant)
            points.setdefault((variants.index(variant), str(config["arm"])), []).extend(load_arm(folder))
    return variants, points


def by_seed(runs: Iterable[RunData]) -> list[RunData]:
    """Return the runs in the order of their seeds."""
    return sorted(runs, key=lambda run: run.seed)


def missing_seeds(label: str, plan: Row, runs: Sequence[RunData]) -> list[str]:
    """Return a line that names the seeds of the plan for which an arm has no run, or []."""
    missing = sorted(set(plan.get("seeds", [])) - {run.seed for run in runs})
    return [f"{label}: no run yet for seed {', '.join(map(str, missing))}"] if missing else []


def how_it_ended(run: RunData) -> str:
    """Return "unfinished, ", or "" for a seed that diverged, of which `notes_of_seeds` says so."""
    return "" if run.of_kind("diverged") else f"{run.unfinished}, "


def notes_of_seeds(arms: Mapping[str, Sequence[RunData]]) -> list[str]:
    """Return a line for each seed of a stack that diverged, and one if seeds were trained in stacks and alone.

    The float32 numbers of a seed in a stack and alone part by rounding, as those of two machines do.
    """
    runs = [(label, run) for label, of_arm in arms.items() for run in of_arm]
    notes = [f"{label}, seed {run.seed}: {run.unfinished}" for label, run in runs if run.of_kind("diverged")]
    stacked = [(label, run.seed) for label, run in runs if run.stack]
    alone = [(label, run.seed) for label, run in runs if not run.stack]
    if stacked and alone:
        notes.append(
            f"trained in a stack: {_list_seeds(stacked)}; alone: {_list_seeds(alone)}. The numbers of a seed in a "
            f"stack and alone part by rounding, as on two machines"
        )
    return notes


def _list_seeds(runs: Iterable[tuple[str, int]]) -> str:
    """Return the seeds of each arm: `seeds 0, 1 (none, fire), seed 2 (none)`."""
    of_arm: dict[str, list[int]] = defaultdict(list)
    for label, seed in runs:
        of_arm[label].append(seed)
    arms: dict[str, list[str]] = defaultdict(list)
    for label, seeds in of_arm.items():
        arms[f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"].append(label)
    return ", ".join(f"{seeds} ({', '.join(labels)})" for seeds, labels in arms.items())


def notes_of_runs(path: Path, configs: Mapping[Path, Row]) -> list[str]:
    """Return sentences about failed runs, and about runs under different versions."""
    return failures(path) + describe_mixed(
        {str(folder.relative_to(path)): config for folder, config in configs.items()}
    )


def require_started(
    path: Path, arms: Mapping[str, list[RunData]], trunks: Iterable[RunData]
) -> dict[str, list[RunData]]:
    """Return the arms that have runs, or the trunks as arms if none has. Raises ValueError if no run has started."""
    started = {arm: runs for arm, runs in arms.items() if runs}
    for run in () if started else by_seed(trunks):
        started.setdefault(Point(TRUNK, run.config.get("variant", {})).label, []).append(run)
    if not started:
        raise ValueError(f"{path}: no run has started yet; expected run directories such as seed-0/<arm>/config.json")
    return started


def failures(path: Path) -> list[str]:
    """Return one line for each failed run of a comparison, with its folder and the reason."""
    outcomes = {file.parent: read_object(file) for file in files_of_runs(path, "outcome.json")}
    return [
        f"{folder.relative_to(path)} failed: {outcome.get('reason')}"
        for folder, outcome in outcomes.items()
        if outcome.get("outcome") == "failed"
    ]


def load_runs(path: Path, logs_of_trunk: Callable[[], Logs] | None = None) -> list[RunData]:
    """Return the run in a directory, or one run per seed if it trains several at once.

    `logs_of_trunk` returns the logs of the trunk up to the fork. Raises ValueError for a damaged file.
    """
    config = read_object(path / "config.json")
    tasks = tuple(map(_read_task, config["tasks"]))
    _require_whole(path, config, tasks[-1].end)
    shared = logs_of_trunk() if logs_of_trunk else {}
    logs = {name: shared.get(name, []) + read_log(path, name) for name in LOGS}
    if seeds := stack_of(config):
        return [_history(path, {**config, "seed": seed}, tasks, logs_of_seed(logs, seed, seeds)) for seed in seeds]
    return [_history(path, config, tasks, logs)]


def _history(path: Path, config: Row, tasks: tuple[Segment, ...], logs: Logs) -> RunData:
    return RunData(path, config, tasks, _as_arrays(logs["episodes"]), logs["metrics"], logs["events"], logs["tasks"])


def _require_whole(path: Path, config: Row, end: int) -> None:
    """Raise ValueError if logs of a run that has ended were changed since. Runs without checkpoints are not checked."""
    last = checkpoint.newest_step(checkpoints := path / CHECKPOINTS)
    if last < (config.get("stop_step") or config.get("total_steps", end)):
        return
    lengths = checkpoint.lengths_of_logs(checkpoint.folder_of(checkpoints, last))
    try:
        require_ended(path, {name: length for name, length in lengths.items() if name in LOGS})
    except RunError as error:
        raise ValueError(str(error)) from error


def _logs_until(fork: int, trunk: Path) -> Logs:
    """Return the logs of a trunk up to the fork. Later rows, if any, are not part of its arms' history."""
    logs: Logs = {}
    for name in LOGS:
        logs[name] = [row for row in read_log(trunk, name) if row["step"] <= fork]
    return logs


def _read_task(task: Row) -> Segment:
    return Segment(**{field.name: task[field.name] for field in fields(Segment) if field.name in task})


def _as_arrays(rows: list[Row]) -> Episodes:
    count = len(rows)
    steps, returns = (np.fromiter(map(itemgetter(name), rows), np.float64, count) for name in ("step", "return"))
    tasks = np.fromiter([row.get("task", 0) for row in rows], np.int64, count)
    lengths = np.fromiter([row.get("length", np.nan) for row in rows], np.float64, count)
    exploded = np.fromiter([row.get("exploded", False) for row in rows], np.bool_, count)
    return Episodes(steps, tasks, returns, lengths, exploded)
