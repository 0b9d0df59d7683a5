"""Reading what runs left on the disk: one run directory, or a comparison of arms forked from common trunks."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Row = dict[str, Any]

RUN_FILES = "config.json, episodes.jsonl (or tasks.jsonl), metrics.jsonl and events.jsonl"
CLASSIFIERS = "vision"  # in config.json, where agents have their algorithm's name
LOOPED = {"pretrain", "sft", "clip", "continual", "linear"}  # likewise, the kinds of runs in tracks/kinds.py
OUTCOME = {"step", "task", "updates", "online_accuracy", "test_accuracy"}
POOLED = {"dfi": 1.0, "weight_norm": 0.5, "gradient_norm": 0.5}  # power of a stack's members in what it pools


@dataclass(frozen=True)
class Segment:
    """One task of the stream: `env` from step `start` (exclusive for episode ends) to `end`.

    size: training images of a classifier's task; 0 for agents.
    """

    index: int
    cycle: int
    env: str
    start: int
    end: int
    size: int = 0


@dataclass(frozen=True, eq=False)
class Episodes:
    """Finished episodes, one entry each: step at the end, task index, return, whether physics exploded."""

    steps: Array
    tasks: NDArray[np.int64]
    returns: Array
    exploded: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class RunData:
    """One run's history from step 0: the trunk's rows, if it was forked from one, and its own.

    Classifiers have no episodes but `outcomes`, what became of each finished task, and a run of them trains several
    seeds side by side: each is a history of its own here. An intervention is one event of all, kept by the first.
    """

    path: Path
    config: Row
    tasks: tuple[Segment, ...]
    episodes: Episodes
    metrics: list[Row]
    events: list[Row]
    outcomes: list[Row] = field(default_factory=list)

    @property
    def seed(self) -> int:
        return int(self.config.get("seed", 0))

    @property
    def supple(self) -> str | None:
        """The version that it was trained with."""
        return self.config.get("supple") or self.config.get("versions", {}).get("supple")

    @property
    def kind(self) -> str:
        """An agent's algorithm, or what kind of run it is."""
        return str(self.config.get("algorithm", ""))

    @property
    def classifies(self) -> bool:
        return self.kind == CLASSIFIERS

    @property
    def whose_events(self) -> str:
        """The seeds that this run's events are of, in words."""
        together = self.config.get("settings", {}).get("seeds", []) if self.classifies else []
        return ", ".join(map(str, together or [self.seed]))

    @property
    def total_steps(self) -> int:
        return int(self.config.get("total_steps", self.tasks[-1].end))

    @cached_property
    def last_step(self) -> int:
        """The last step that any log mentions."""
        logged = [int(row["step"]) for row in (*self.metrics, *self.events, *self.outcomes) if "step" in row]
        return max([*logged, *self.episodes.steps[-1:].astype(int), 0])

    def of_kind(self, event: str) -> list[Row]:
        """The events of one kind: `intervention`, `explosion`, `task`."""
        return [row for row in self.events if row.get("event") == event]

    def series(self, name: str, task: int | None = None) -> tuple[Array, Array]:
        """(steps, values) of a metric, where it was logged as a finite number; only those of one task, if named."""
        rows = self.metrics if task is None else [row for row in self.metrics if row.get("task") == task]
        pairs = [(row["step"], row[name]) for row in rows if _is_number(row.get(name))]
        steps, values = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
        return steps, values


@dataclass(frozen=True, eq=False)
class ComparisonData:
    """Arms and their runs, one a seed. A single run is a comparison with one arm and no fork.

    palette: every arm of the report, where it shows more than these; colours go by it.
    """

    path: Path
    arms: dict[str, list[RunData]]
    fork_step: int | None = None
    notes: list[str] = field(default_factory=list)
    palette: tuple[str, ...] = ()

    @property
    def first(self) -> RunData:
        """Any one run: algorithm, stream and settings are the same in all."""
        return next(iter(self.arms.values()))[0]

    @property
    def seeds(self) -> int:
        """The largest number of seeds that an arm has."""
        return max(len(runs) for runs in self.arms.values())

    @property
    def total_steps(self) -> int:
        """Planned steps of the longest run."""
        return max(run.total_steps for runs in self.arms.values() for run in runs)

    @property
    def labels(self) -> tuple[str, ...]:
        """The arms that colours are dealt out to."""
        return self.palette or tuple(self.arms)

    @property
    def unit(self) -> str:
        """What a step is."""
        return "updates" if self.first.classifies or self.first.kind in LOOPED else "environment steps"


def kind_of(path: Path) -> str:
    """The algorithm, or the kind of run, that a run or a comparison is of; "" for a directory that is neither.

    Raises ValueError, in one line, for a damaged file in it."""
    files = (path / name for name in ("comparison.json", "config.json"))
    return next((str(read_object(file).get("algorithm", "")) for file in files if file.is_file()), "")


def load(path: Path) -> ComparisonData:
    """Read a run directory or a comparison directory, of agents or of classifiers.

    Runs that are still going, or were killed, are read as far as they came, which `notes` says.
    Raises ValueError, in one line, for a directory that is neither, or for a damaged file in it.
    """
    path = Path(path)
    if (path / "comparison.json").is_file():
        data = _load_comparison(path)
    elif (path / "config.json").is_file():
        runs = load_runs(path)
        label = runs[0].config.get("arm") or ", ".join(runs[0].config.get("hooks", [])) or "none"
        data = ComparisonData(path, {label: runs})
    else:
        raise ValueError(
            f"{path} is neither a run directory ({RUN_FILES}) nor a comparison directory (comparison.json)"
        )
    for label, runs in data.arms.items():
        for run in runs:
            if run.classifies:
                continue  # its numbers are of each task by itself, finished run or not: `classifiers.score` tells
            if run.last_step < (window := run.tasks[-1].end - 0.15 * _length(run.tasks[-1])):
                data.notes.append(
                    f"{label}, seed {run.seed}: unfinished, its logs end at step {run.last_step:,} "
                    f"of {run.total_steps:,}; it enters no final score (those begin at step {window:,.0f})"
                )
    return data


def read_jsonl(path: Path) -> list[Row]:
    """The objects of a JSON-lines file.

    A last line that is broken was torn by a crash, and is dropped. Raises ValueError with file and line number
    for a broken line before it, and FileNotFoundError if there is no such file.
    """
    lines = path.read_bytes().splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    rows: list[Row] = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("not an object")
        except ValueError as error:
            if number == len(lines):
                break
            raise ValueError(f"{path}, line {number}: broken JSON ({error}); expected one object") from error
        rows.append(row)
    return rows


def _load_comparison(path: Path) -> ComparisonData:
    plan = read_object(path / "comparison.json")
    fork = int(plan.get("fork_step", 0))
    configs = {file.parent: read_object(file) for file in sorted(path.glob("seed*/*/config.json"))}
    trunks = {folder.parent: folder for folder, config in configs.items() if config.get("arm") is None}

    arms: dict[str, list[RunData]] = {str(label): [] for label in plan.get("arms", [])}
    for folder, config in configs.items():
        if config.get("arm") is not None:
            arms.setdefault(str(config["arm"]), []).extend(load_runs(folder, trunks.get(folder.parent), fork))
    planned = plan.get("seeds", [])
    notes = []
    for label, runs in arms.items():
        runs.sort(key=lambda run: run.seed)
        if missing := sorted(set(planned) - {run.seed for run in runs}):
            notes.append(f"{label}: no run yet for seed {', '.join(map(str, missing))}")
    arms = {label: runs for label, runs in arms.items() if runs}
    if not arms:
        raise ValueError(f"{path}: no arm has begun yet; expected run directories such as seed-0/<arm>/config.json")
    return ComparisonData(path, arms, fork, notes)


def load_runs(path: Path, trunk: Path | None = None, fork: int = 0) -> list[RunData]:
    """The run in a directory, or those of its seeds where it trains several at once.

    trunk: the run that it was forked from at step `fork`. Raises ValueError, in one line, for a damaged file.
    """
    config = read_object(path / "config.json")
    try:
        tasks = tuple(_segment(config, task) for task in config["tasks"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path / 'config.json'}: 'tasks' is missing or incomplete ({error})") from error
    if not tasks:
        raise ValueError(f"{path / 'config.json'}: 'tasks' is empty; a run has at least one")
    logs = {}
    for name in ("episodes", "metrics", "events", "tasks"):
        # Beyond the fork a trunk is another history than the arm's.
        shared = [r for r in _log(trunk, name) if r.get("step", 0) <= fork] if trunk else []
        logs[name] = shared + _log(path, name)
    episodes = _episodes(path / "episodes.jsonl", logs["episodes"], len(tasks))
    run = RunData(path, config, tasks, episodes, logs["metrics"], logs["events"], logs["tasks"])
    return _by_seed(run) if run.classifies else [run]


def _segment(config: Row, task: Row) -> Segment:
    """A task of config.json. Those of classifiers are all of one kind, and come once, as others do."""
    if config.get("algorithm") in LOOPED:
        task = {"cycle": 0, "env": task["name"], **task}
    if config.get("algorithm") == CLASSIFIERS:
        task = {"cycle": 0, "env": str(config.get("settings", {}).get("dataset", "")), **task}
    return Segment(**{key: task[key] for key in ("index", "cycle", "env", "start", "end")}, size=task.get("size", 0))


def _by_seed(run: RunData) -> list[RunData]:
    """A run of several seeds as one of each. Each keeps its own rows, the first the events, as of one network."""
    for row in run.outcomes:
        if missing := OUTCOME - row.keys():
            raise ValueError(f"{run.path / 'tasks.jsonl'}: a finished task without {sorted(missing)[0]!r}")
    seeds = [int(seed) for seed in run.config.get("settings", {}).get("seeds", [])] or [run.seed]
    events = [_of_one(event, len(seeds)) for event in run.events]

    def own(rows: list[Row], seed: int) -> list[Row]:
        return [row for row in rows if row.get("seed", seed) == seed]

    return [
        replace(
            run,
            config={**run.config, "seed": seed},
            metrics=own(run.metrics, seed),
            events=events if seed == seeds[0] else [],
            outcomes=own(run.outcomes, seed),
        )
        for seed in seeds
    ]


def _of_one(event: Row, members: int) -> Row:
    """An intervention in a stack, with what was summed over its members as of one: SFE, DfI, and norms as their root
    mean square."""
    if event.get("event") != "intervention" or members == 1:
        return event
    sides = {
        side: {
            name: value / members ** POOLED.get(name, 0.0)
            for name, value in event.get(side, {}).items()
            if value is not None
        }
        for side in ("before", "after")
    }
    change = dict(event.get("change", {}))
    if change.get("sfe") is not None:
        change["sfe"] /= members
    return {**event, **sides, "change": change}


def _log(run: Path, name: str) -> list[Row]:
    """A log of a run; none if the run has not come to write it."""
    file = run / f"{name}.jsonl"
    return read_jsonl(file) if file.exists() else []


def _episodes(file: Path, rows: list[Row], tasks: int) -> Episodes:
    try:
        cells = [(r["step"], r.get("task", 0), r["return"], bool(r.get("exploded"))) for r in rows]
        table = np.array(cells, dtype=np.float64).reshape(-1, 4)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file}: an episode without a usable 'step' or 'return' ({error})") from error
    if (bad := table[:, 1][(table[:, 1] < 0) | (table[:, 1] >= tasks)]).size:
        raise ValueError(f"{file}: an episode of task {bad[0]:.0f}, but config.json lists {tasks} tasks")
    return Episodes(table[:, 0], table[:, 1].astype(np.int64), table[:, 2], table[:, 3].astype(bool))


def read_object(file: Path) -> Row:
    """The JSON object in a file. Raises ValueError with the file's name where there is none."""
    try:
        value = json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"{file}: broken JSON ({error})") from error
    if not isinstance(value, Mapping):
        raise ValueError(f"{file}: expected a JSON object")
    return dict(value)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and bool(np.isfinite(value))


def _length(task: Segment) -> int:
    return task.end - task.start
