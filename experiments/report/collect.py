"""Reading what runs left on the disk: one run directory, or a comparison of arms forked from common trunks."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kinds import find_kind

Array = NDArray[np.float64]
Row = dict[str, Any]

RUN_FILES = "config.json, episodes.jsonl (or tasks.jsonl), metrics.jsonl and events.jsonl"


@dataclass(frozen=True)
class Segment:
    """One task of the stream, from step `start` (exclusive for episode ends) to `end`.

    cycle, env: of agents' tasks. size: training images of a classifier's.
    """

    index: int
    start: int
    end: int
    name: str
    cycle: int = 0
    env: str = ""
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

    episodes: of agents. outcomes: what became of each finished task, of other kinds. together: the seeds whose events
    these are, where a run trains several side by side; each is a history of its own here, and the first keeps the
    events.
    """

    path: Path
    config: Row
    tasks: tuple[Segment, ...]
    episodes: Episodes
    metrics: list[Row]
    events: list[Row]
    outcomes: list[Row] = field(default_factory=list)
    together: tuple[int, ...] = ()

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
    def whose_events(self) -> str:
        """The seeds that this run's events are of, in words."""
        return ", ".join(map(str, self.together or [self.seed]))

    @property
    def total_steps(self) -> int:
        return int(self.config.get("total_steps", self.tasks[-1].end))

    @cached_property
    def last_step(self) -> int:
        """The last step that any log mentions."""
        logged = [int(row["step"]) for row in (*self.metrics, *self.events, *self.outcomes) if "step" in row]
        return max([*logged, *self.episodes.steps[-1:].astype(int), 0])

    def of_kind(self, event: str) -> list[Row]:
        """Return the events of one kind: `intervention`, `explosion`, `task`."""
        return [row for row in self.events if row.get("event") == event]

    def series(self, name: str, task: int | None = None) -> tuple[Array, Array]:
        """Return (steps, values) of a metric, where it was logged as a finite number;
        only those of one task, if named."""
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
        """Return what a step is."""
        return find_kind(self.first.kind).unit


def kind_of(path: Path) -> str:
    """Return the kind of run that a run or a comparison is of.

    Raises ValueError, in one line, for a directory that is neither, or for a damaged file in it."""
    for name in ("comparison.json", "config.json"):
        if (path / name).is_file():
            return str(read_object(path / name).get("algorithm", ""))
    raise ValueError(f"{path} is neither a run directory ({RUN_FILES}) nor a comparison directory (comparison.json)")


def load(path: Path) -> ComparisonData:
    """Read a run directory, or a comparison directory; there each arm in each variant of the settings is an arm.

    Runs that are still going, or were killed, are read as far as they came; `notes` names those that have not begun.
    Raises ValueError, in one line, for a directory that is neither, or for a damaged file in it.
    """
    path = Path(path)
    kind_of(path)
    if (path / "comparison.json").is_file():
        return _load_comparison(path)
    runs = load_runs(path)
    label = runs[0].config.get("arm") or ", ".join(runs[0].config.get("hooks", [])) or "none"
    return ComparisonData(path, {label: runs})


def read_jsonl(path: Path) -> list[Row]:
    """Return the objects of a JSON-lines file.

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
    files = sorted([*path.glob("seed*/*/config.json"), *path.glob("seed*/*/*/config.json")])
    configs = {file.parent: read_object(file) for file in files}
    trunks = {folder.parent: folder for folder, config in configs.items() if config.get("arm") is None}

    variants, labels = plan.get("variants") or [{}], plan.get("arms", [])
    arms: dict[str, list[RunData]] = {_label(variant, arm): [] for variant in variants for arm in labels}
    for folder, config in configs.items():
        if config.get("arm") is not None:
            label = _label(config.get("variant", {}), config["arm"])
            arms.setdefault(label, []).extend(load_runs(folder, trunks.get(folder.parent), fork))
    planned = plan.get("seeds", [])
    notes = []
    for label, runs in arms.items():
        runs.sort(key=lambda run: run.seed)
        if missing := sorted(set(planned) - {run.seed for run in runs}):
            notes.append(f"{label}: no run yet for seed {', '.join(map(str, missing))}")
    notes += failures(path)
    arms = {label: runs for label, runs in arms.items() if runs}
    if not arms:
        raise ValueError(f"{path}: no arm has begun yet; expected run directories such as seed-0/<arm>/config.json")
    return ComparisonData(path, arms, fork, notes)


def failures(path: Path) -> list[str]:
    """Return a line for each run of a comparison that failed: its folder in it, and the reason."""
    found = [(file, read_object(file)) for file in sorted(path.glob("seed*/**/outcome.json"))]
    return [
        f"{file.parent.relative_to(path)} failed: {outcome.get('reason')}"
        for file, outcome in found
        if outcome.get("outcome") == "failed"
    ]


def _label(variant: Row, arm: str) -> str:
    """Return the label of an arm in its variant of the settings, `learning_rate=0.001 · fire`; by itself where nothing
    varies."""
    return " · ".join(filter(None, [", ".join(f"{name}={value}" for name, value in variant.items()), str(arm)]))


def load_runs(path: Path, trunk: Path | None = None, fork: int = 0) -> list[RunData]:
    """Return the run in a directory, or those of its seeds where it trains several at once.

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
    return find_kind(run.kind).reports().split(run)


def _segment(config: Row, task: Row) -> Segment:
    """A task of config.json, as runs before now wrote it too: without names, of agents and of classifiers."""
    name = task.get("name") or task.get("env") or config.get("settings", {}).get("dataset", "")
    rest = {key: task[key] for key in ("cycle", "env", "size") if key in task}
    return Segment(task["index"], task["start"], task["end"], str(name), **rest)


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
    """Return the JSON object in a file. Raises ValueError with the file's name where there is none."""
    try:
        value = json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"{file}: broken JSON ({error})") from error
    if not isinstance(value, Mapping):
        raise ValueError(f"{file}: expected a JSON object")
    return dict(value)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and bool(np.isfinite(value))
