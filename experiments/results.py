"""The results of runs on the disk, as data frames."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from ..engine.kinds import find_kind
from ..engine.storage.names import TRUNK
from .comparisons.comparison import files_of_runs
from .history.collect import ComparisonData, RunData
from .history.collect import load as collect
from .sweeps.sweep import FILE, folders_of
from .sweeps.tuning import TUNING

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Results:
    """The results of a run, a comparison or a sweep on the disk.

        results = load("runs/demo")
        results.metrics.groupby(["arm", "step"])["agent/weight_norm"].mean()

    Every frame has the columns `arm` and `seed`, and for a sweep `study` before them. The rows of an arm begin with
    those of the trunk from which it was forked. A run that is not part of a comparison is one arm, named by its hooks.
    pandas is imported when a frame is first used.

    Attributes:
        path: The folder.
        studies: The data by study; under "" if the folder is not a sweep.
    """

    path: Path
    studies: Mapping[str, ComparisonData] = field(repr=False)  # a notebook would print every number of every run

    @cached_property
    def metrics(self) -> "DataFrame":
        """Return measurements and evaluations: step, task and one column per name. A row is a line of the log."""
        return self._frame(lambda run: run.metrics)

    @cached_property
    def episodes(self) -> "DataFrame":
        """Return the finished episodes of agents: last step, task, return, length, exploded. Empty for other kinds."""

        def rows(run: RunData) -> Iterable[dict[str, Any]]:
            found = run.episodes
            steps, exploded = found.steps.astype(int), found.exploded.astype(object)
            columns = zip(steps, found.tasks, found.returns, found.lengths, exploded, strict=True)
            return (dict(zip(("step", "task", "return", "length", "exploded"), row, strict=True)) for row in columns)

        return self._frame(rows)

    @cached_property
    def tasks(self) -> "DataFrame":
        """Return the accuracies or losses of each finished task. Empty for agents."""
        return self._frame(lambda run: run.outcomes)

    @cached_property
    def events(self) -> "DataFrame":
        """Return interventions, task switches and other events. Metrics before and after are dictionaries."""
        return self._frame(lambda run: run.events)

    @cached_property
    def scores(self) -> dict[str, Any]:
        """Return the scores in the report's scores.json; for a sweep, by study."""
        found = {
            name: resolve_name(find_kind(data.first.kind).report).compose([self.path / name]).scores
            for name, data in self.studies.items()
        }
        return found.get("", found)

    def _frame(self, rows: Callable[[RunData], Iterable[dict[str, Any]]]) -> "DataFrame":
        from pandas import DataFrame

        alone = "" in self.studies
        found = [
            {**({} if alone else {"study": study}), "arm": arm, "seed": run.seed, **row}
            for study, data in self.studies.items()
            for arm, runs in data.arms.items()
            for run in runs
            for row in rows(run)
        ]
        return DataFrame(found, columns=None if found else ["study", "arm", "seed"][alone:])


def load(path: str | Path) -> Results:
    """Return the results so far of a run, a comparison or a sweep.

    Studies without a started arm are left out, and so are the points at which arms were tuned.

    Raises:
        ValueError: The folder is none of these, or a file in it is damaged.
    """
    path = Path(path)
    if not (path / FILE).is_file():
        return Results(path, {"": collect(path)})
    begun = [folder for folder in folders_of(path) if folder.name != TUNING and _has_begun(folder)]
    return Results(path, {str(folder.relative_to(path)): collect(folder) for folder in begun})


def _has_begun(comparison: Path) -> bool:
    return any(file.parent.name != TRUNK for file in files_of_runs(comparison, "config.json"))
