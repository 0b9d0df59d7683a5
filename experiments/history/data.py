"""The histories of runs and comparisons, as reports look at them: arrays, rows and series."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.engine.spec import RunSpec, to_json
from supple.experiments.comparisons.grid import Point
from supple.metrics import Array, final_window_return

from .logs import Row

TAIL = 0.15  # fraction of a task's steps that counts as its steady state (activations paper, section 7)
Series = tuple[Array, Array]  # steps and values, (n,) each
NOTHING = (np.empty(0), np.empty(0), np.empty(0))


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

    @property
    def window(self) -> float:
        """The step at which the last 15 % of its steps begin."""
        return self.end - TAIL * (self.end - self.start)


@dataclass(frozen=True, eq=False)
class Episodes:
    """The finished episodes of a run. Each array has one entry per episode."""

    steps: Array  # at the end of the episode
    tasks: NDArray[np.int64]
    returns: Array
    lengths: Array  # in steps; NaN where it was not recorded
    exploded: NDArray[np.bool_]

    def of(self, task: Segment, since: float = 0) -> Series:
        """Return the steps and the returns of the episodes of a task that ended after step `since`, (n,) each."""
        own = (self.tasks == task.index) & (self.steps > since)
        return self.steps[own], self.returns[own]


@dataclass(frozen=True, eq=False)
class RunData:
    """The history of a run from step 0. For an arm of a fork, it begins with the rows of the trunk.

    Agents have `episodes`. Other kinds have `outcomes`, the results of each finished task. A stack of seeds is read as
    one history per seed, which has the rows of that seed. If steps count from where the run was forked, `whole` is the
    history as logged, in which only the outcomes begin with those of the trunk.
    """

    path: Path
    spec: RunSpec
    seed: int
    tasks: tuple[Segment, ...]
    episodes: Episodes
    metrics: list[Row]
    events: list[Row]
    outcomes: list[Row] = field(default_factory=list)
    whole: "RunData | None" = None

    @property
    def as_logged(self) -> "RunData":
        """This history with its steps as logged."""
        return self.whole or self

    @property
    def settings(self) -> Any:
        """The settings, of the class of the kind."""
        return self.spec.settings

    @cached_property
    def values(self) -> Row:
        """The settings as JSON values, by name."""
        values: Row = to_json(self.spec.settings)
        return values

    @property
    def supple(self) -> str | None:
        """The version of supple with which the run was begun."""
        return self.spec.resolved.begun.get("supple")

    @property
    def leads(self) -> str:
        """The measure that leads reports: the one declared before the run, or that of the kind; "" for none."""
        return self.spec.labels.leads or self.spec.kind_row.leads

    @property
    def stack(self) -> tuple[int, ...]:
        """The seeds that were trained with this one as a stack; () if it was trained alone."""
        return self.spec.seeds if len(self.spec.seeds) > 1 else ()

    @property
    def diverged(self) -> str:
        """When and why the seed diverged, in words; "" if it did not."""
        events = self.of_kind("diverged")
        return f"diverged by step {events[0]['step']:,} ({events[0].get('reason')})" if events else ""

    @property
    def total_steps(self) -> int:
        return self.tasks[-1].end

    @cached_property
    def last_step(self) -> int:
        """The last step in any log."""
        logged = [int(row["step"]) for row in (*self.metrics, *self.events, *self.outcomes) if "step" in row]
        return max([*logged, *self.episodes.steps[-1:].astype(int), 0])

    def final_return(self, task: Segment, old: Segment | None = None, since: float = 0) -> float:
        """Return the mean return in the last 15 % of a task (`final_window_return`), NaN if the run has not reached it.

        old: The task whose episodes count; by default the same. since: The step after which they ended."""
        window = *self.episodes.of(old or task, since), task.start, task.end, TAIL
        return final_window_return(*window) if self.last_step >= task.window else np.nan

    @cached_property
    def logged(self) -> tuple[str, ...]:
        """The names in metrics.jsonl, in the order in which they come first."""
        return tuple(dict.fromkeys(name for row in self.metrics for name in row))

    def of_kind(self, event: str) -> list[Row]:
        """Return the events of one type: `intervention`, `explosion` or `task`."""
        return [row for row in self.events if row.get("event") == event]

    def series(self, name: str, task: int | None = None, low: float = -np.inf, high: float = np.inf) -> Series:
        """Return the steps, low < step ≤ high, and the finite values of a metric, (n,) each, of all tasks or of one."""
        steps, tasks, values = self._columns.get(name, NOTHING)
        wanted = (steps > low) & (steps <= high) & (task is None or tasks == task)
        return steps[wanted], values[wanted]

    @cached_property
    def _columns(self) -> dict[str, tuple[Array, Array, Array]]:
        """Return name → (steps, tasks, values) for all finite values."""
        points: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
        for row in self.metrics:
            step, task = row["step"], row.get("task", -1)
            for name, value in row.items():
                if _is_number(value):
                    points[name].append((step, task, value))
        return {name: tuple(np.array(of_name, dtype=np.float64).T) for name, of_name in points.items()}


@dataclass(frozen=True, eq=False)
class ComparisonData:
    """The arms of a comparison and their runs, one per seed. A single run is a comparison with one arm and no fork.

    Attributes:
        path: Its folder.
        arms: The runs by label. Every arm in every variant of the settings has a label.
        fork_step: The step at which all arms begin; None if their runs are shown from their own beginnings.
        notes: Sentences about missing and failed runs.
        palette: All arms of the report, if it has more than these. It determines the colours.
        points: Label → the arm as given by the user, and its variant; without an entry, the label is the arm.
        trunks: The trunks, if they are not the beginnings of the arms' runs.
    """

    path: Path
    arms: dict[str, list[RunData]]
    fork_step: int | None = None
    notes: list[str] = field(default_factory=list)
    palette: tuple[str, ...] = ()
    points: Mapping[str, Point] = field(default_factory=dict)
    trunks: Sequence[RunData] = ()

    @property
    def first(self) -> RunData:
        """The first run. The kind, the stream and most settings are the same in all."""
        return self.runs[0]

    @property
    def runs(self) -> list[RunData]:
        """The runs of all arms."""
        return list(chain.from_iterable(self.arms.values()))

    def point(self, label: str) -> Point:
        """Return the arm and the variant of a label."""
        return self.points.get(label, Point(label, {}))

    @property
    def seeds(self) -> int:
        """The largest number of seeds of an arm."""
        return max(len(runs) for runs in self.arms.values())

    @property
    def total_steps(self) -> int:
        """The planned steps of the longest run."""
        return max(run.total_steps for run in self.runs)

    @property
    def labels(self) -> tuple[str, ...]:
        """The arms that determine the colours."""
        return self.palette or tuple(self.arms)

    @property
    def unit(self) -> str:
        """The unit of steps."""
        return self.first.spec.kind_row.unit


def interventions_in(runs: Iterable[RunData]) -> list[Row]:
    """Return the events of all interventions in these runs."""
    return [event for run in runs for event in run.of_kind("intervention")]


def any_logged(runs: Iterable[RunData], name: str) -> bool:
    """Return whether a finite value of this name is in the metrics of any of these runs."""
    return any(run.series(name)[0].size for run in runs)


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and isfinite(value)  # type: ignore[arg-type]
