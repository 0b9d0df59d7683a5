"""Read the logs of a run directory, or of a comparison of arms that were forked from common trunks."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from math import isfinite
from operator import itemgetter
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from ...engine.kinds import all_kinds, find_kind
from ...engine.storage import checkpoint, signed_json
from ...engine.storage.run_directory import CHECKPOINTS, Config, require_ended
from ...engine.storage.versions import describe_mixed
from ...registry import schema
from ...registry.errors import RunError
from ..comparisons.comparison import Point, files_of_runs
from .logs import FIELDS, LARGEST, Row, read_log

Array = NDArray[np.float64]
Logs = dict[str, list[Row]]
# The entries that a report reads in config.json, comparison.json and outcome.json. Earlier versions wrote a text for
# "data", and "supple" instead of "versions".
PLAN = {
    "fork_step": int, "arms": list[str], "seeds": list[int], "variants": list[dict[str, Any]],
    "only": list[tuple[str, int]],
}  # fmt: skip
OLDER = {"data": dict[str, str] | str, "supple": str}
OUTCOME = {"outcome": str, "reason": str}
ENTRIES = get_type_hints(Config) | PLAN | OLDER | OUTCOME

NOTHING = (np.empty(0), np.empty(0), np.empty(0))
RUN_FILES = "config.json, episodes.jsonl (or tasks.jsonl), metrics.jsonl and events.jsonl"


@dataclass(frozen=True)
class Segment:
    """One task of the stream, from step `start` (exclusive for ends of episodes) to `end`.

    Tasks of agents have a `cycle` and an `env`. Tasks of classifiers have a `size`, the number of training images.
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
    """The finished episodes of a run. Each array has one entry per episode."""

    steps: Array  # at the end of the episode
    tasks: NDArray[np.int64]
    returns: Array
    lengths: Array  # in steps; NaN where it was not recorded
    exploded: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class RunData:
    """The history of a run from step 0. For an arm of a fork, it begins with the rows of the trunk.

    Agents have `episodes`. Other kinds have `outcomes`, the results of each finished task. A stack of seeds is split
    into one history per seed, of which the first has all events. `together` lists the seeds of these events.
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
        """The version of supple with which the run was trained."""
        return self.config.get("supple") or self.config.get("versions", {}).get("supple")

    @property
    def kind(self) -> str:
        """The kind of the run."""
        return str(self.config.get("algorithm", ""))

    @property
    def whose_events(self) -> str:
        """The seeds to which this run's events belong, as text."""
        return ", ".join(map(str, self.together or [self.seed]))

    @property
    def total_steps(self) -> int:
        return int(self.config.get("total_steps", self.tasks[-1].end))

    @cached_property
    def last_step(self) -> int:
        """The last step in any log."""
        logged = [int(row["step"]) for row in (*self.metrics, *self.events, *self.outcomes) if "step" in row]
        return max([*logged, *self.episodes.steps[-1:].astype(int), 0])

    def of_kind(self, event: str) -> list[Row]:
        """Return the events of one type: `intervention`, `explosion` or `task`."""
        return [row for row in self.events if row.get("event") == event]

    def series(self, name: str, task: int | None = None) -> tuple[Array, Array]:
        """Return the steps and the finite values of a metric, each of shape (n,), of all tasks or of one."""
        steps, tasks, values = self._columns.get(name, NOTHING)
        own = slice(None) if task is None else tasks == task
        return steps[own], values[own]

    @cached_property
    def _columns(self) -> dict[str, tuple[Array, Array, Array]]:
        """Return name → (steps, tasks, values) for all finite values."""
        found: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
        for row in self.metrics:
            step, task = row["step"], row.get("task", -1)
            for name, value in row.items():
                if _is_number(value):
                    found[name].append((step, task, value))
        return {name: tuple(np.array(cells, dtype=np.float64).T) for name, cells in found.items()}


@dataclass(frozen=True, eq=False)
class ComparisonData:
    """The arms of a comparison and their runs, one per seed. A single run is a comparison with one arm and no fork.

    `palette` lists all arms of the report, if it has more than these. It determines the colours.
    """

    path: Path
    arms: dict[str, list[RunData]]
    fork_step: int | None = None
    notes: list[str] = field(default_factory=list)
    palette: tuple[str, ...] = ()

    @property
    def first(self) -> RunData:
        """The first run. The kind, the stream and most settings are the same in all."""
        return next(iter(self.arms.values()))[0]

    @property
    def seeds(self) -> int:
        """The largest number of seeds of an arm."""
        return max(len(runs) for runs in self.arms.values())

    @property
    def total_steps(self) -> int:
        """The planned steps of the longest run."""
        return max(run.total_steps for runs in self.arms.values() for run in runs)

    @property
    def labels(self) -> tuple[str, ...]:
        """The arms that determine the colours."""
        return self.palette or tuple(self.arms)

    @property
    def unit(self) -> str:
        """The unit of steps."""
        return find_kind(self.first.kind).unit


def kind_of(path: Path) -> str:
    """Return the kind of a run or a comparison. Raises ValueError if it is neither, or a file in it is damaged."""
    for name in ("comparison.json", "config.json"):
        if (path / name).is_file():
            return str(read_object(path / name).get("algorithm", ""))
    raise ValueError(f"{path} is neither a run directory ({RUN_FILES}) nor a comparison directory (comparison.json)")


def load(path: Path) -> ComparisonData:
    """Read a run directory or a comparison directory. In a comparison, every arm in every variant counts as an arm.

    Unfinished runs are read as far as they came. `notes` lists runs that have not started.

    Raises:
        ValueError: The directory is neither, or a file in it is damaged.
    """
    path = Path(path)
    kind_of(path)
    if (path / "comparison.json").is_file():
        return _load_comparison(path)
    runs = load_runs(path)
    notes = describe_mixed({path.name: runs[0].config})
    label = runs[0].config.get("arm") or ", ".join(runs[0].config.get("hooks", [])) or "none"
    return ComparisonData(path, {label: runs}, notes=notes)


def _load_comparison(path: Path) -> ComparisonData:
    plan = read_object(path / "comparison.json")
    fork = int(plan.get("fork_step", 0))
    files = files_of_runs(path, "config.json")
    configs = {file.parent: read_object(file) for file in files}
    trunks = {folder.parent: folder for folder, config in configs.items() if config.get("arm") is None}

    for folder in trunks.values():
        _require_whole(folder, configs[folder], fork)
    arms: dict[str, list[RunData]] = {Point(arm, variant).label: [] for variant, arm in planned_points(plan)}
    begun = cache(lambda trunk, tasks: _before(trunk, tasks, fork))  # every arm continues from the trunk of its seed
    for folder, config in configs.items():
        if config.get("arm") is not None:
            label = Point(config["arm"], config.get("variant", {})).label
            trunk = trunks.get(folder.parent)
            arms.setdefault(label, []).extend(load_runs(folder, partial(begun, trunk) if trunk else None))
    planned = plan.get("seeds", [])
    notes = []
    for label, runs in arms.items():
        runs.sort(key=lambda run: run.seed)
        if missing := sorted(set(planned) - {run.seed for run in runs}):
            notes.append(f"{label}: no run yet for seed {', '.join(map(str, missing))}")
    notes += failures(path) + describe_mixed(
        {str(folder.relative_to(path)): config for folder, config in configs.items()}
    )
    arms = {label: runs for label, runs in arms.items() if runs}
    if not arms:
        raise ValueError(f"{path}: no arm has started yet; expected run directories such as seed-0/<arm>/config.json")
    return ComparisonData(path, arms, fork, notes)


def planned_points(plan: Row) -> list[tuple[Row, str]]:
    """Return the pairs of a variant and an arm in a comparison: all pairs, or those in `only`."""
    variants, arms, only = plan.get("variants") or [{}], plan.get("arms", []), plan.get("only") or []
    places = [(i, str(arm)) for i in range(len(variants)) for arm in arms]
    return [(variants[i], arm) for i, arm in places if not only or [arm, i] in only]


def failures(path: Path) -> list[str]:
    """Return one line for each failed run of a comparison, with its folder and the reason."""
    found = [(file, read_object(file)) for file in files_of_runs(path, "outcome.json")]
    return [
        f"{file.parent.relative_to(path)} failed: {outcome.get('reason')}"
        for file, outcome in found
        if outcome.get("outcome") == "failed"
    ]


def load_runs(path: Path, before: Callable[[int], Logs] | None = None) -> list[RunData]:
    """Return the run in a directory, or one run per seed if it trains several at once.

    `before` returns the logs of the trunk up to the fork, given the number of tasks. Raises ValueError for a damaged
    file.
    """
    config = read_object(path / "config.json")
    if not config.get("tasks"):
        raise ValueError(f"{path / 'config.json'}: 'tasks' is missing or empty; a run has at least one task")
    try:
        tasks = tuple(_segment(config, i, task) for i, task in enumerate(config["tasks"]))
    except ValueError as error:
        raise ValueError(f"{path / 'config.json'}: {error}") from error
    _require_whole(path, config, tasks[-1].end)
    shared = before(len(tasks)) if before else {}
    logs = {name: shared.get(name, []) + read_log(path, name, len(tasks)) for name in FIELDS}
    run = RunData(path, config, tasks, _episodes(logs["episodes"]), logs["metrics"], logs["events"], logs["tasks"])
    split = find_kind(run.kind).split
    return resolve_name(split)(run) if split else [run]


def _require_whole(path: Path, config: Row, end: int) -> None:
    """Raise ValueError if logs of a run that has ended were changed since. Runs without checkpoints are not checked."""
    last = checkpoint.newest_step(checkpoints := path / CHECKPOINTS)
    if last < (config.get("stop_step") or config.get("total_steps", end)):
        return
    lengths = checkpoint.lengths_of_logs(checkpoint.folder_of(checkpoints, last))
    try:
        require_ended(path, {name: length for name, length in lengths.items() if name in FIELDS})
    except RunError as error:
        raise ValueError(str(error)) from error


def _before(trunk: Path, tasks: int, fork: int) -> Logs:
    """Return the logs of a trunk up to the fork. Later rows, if any, are not part of its arms' history."""
    return {name: [row for row in read_log(trunk, name, tasks) if row["step"] <= fork] for name in FIELDS}


def _segment(config: Row, i: int, task: Row) -> Segment:
    """Return a task of config.json. Earlier versions wrote tasks of agents and classifiers without names."""
    name = task.get("name") or task.get("env") or config.get("settings", {}).get("dataset", "")
    known = {key: task[key] for key in ("index", "start", "end", "cycle", "env", "size") if key in task}
    segment: Segment = schema.convert({**known, "name": name}, Segment, f"tasks[{i}]")
    if segment.index != i or not 0 <= segment.start < segment.end < LARGEST:
        raise ValueError(f"tasks[{i}]: task {segment.index} from step {segment.start} to {segment.end} is not valid")
    return segment


def _episodes(rows: list[Row]) -> Episodes:
    count = len(rows)
    steps, returns = (np.fromiter(map(itemgetter(name), rows), np.float64, count) for name in ("step", "return"))
    tasks = np.fromiter([row.get("task", 0) for row in rows], np.int64, count)
    lengths = np.fromiter([row.get("length", np.nan) for row in rows], np.float64, count)
    exploded = np.fromiter([row.get("exploded", False) for row in rows], np.bool_, count)
    return Episodes(steps, tasks, returns, lengths, exploded)


def read_object(file: Path) -> Row:
    """Return the contents of config.json, comparison.json or outcome.json, with or without checksums.

    Raises ValueError, which names the file and any entry that was changed or has the wrong type.
    """
    try:
        value = signed_json.read_json(file, str(file.parent), signed=False)
    except RunError as error:
        raise ValueError(str(error)) from error
    try:
        _check_types(value, ENTRIES, "")
        if kind := all_kinds().get(value.get("algorithm", "")):
            _check_types(value.get("settings", {}), get_type_hints(kind.settings_class()), "settings")
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    return value


def _check_types(found: Row, types: Mapping[str, Any], where: str) -> None:
    """Raise ValueError for an entry of the wrong type. Entries that are not in `types` may have any type."""
    schema.convert_entries({name: value for name, value in found.items() if name in types}, types, where)


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and isfinite(value)  # type: ignore[arg-type]
