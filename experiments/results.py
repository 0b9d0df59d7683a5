"""The results of runs on the disk, as data frames."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from supple.engine.loading import local_folder
from supple.engine.spec import FILE as RUN
from supple.engine.user_code import plugins

from .comparisons.folder import files_of_runs
from .history.collect import load as collect
from .history.data import ComparisonData, RunData
from .history.performance import performance_of
from .history.task_parts import parts_of
from .sweeps.sweep import FILE, folders_of
from .sweeps.tuning import TUNING

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_ROWS = 40  # of arms in the table of a notebook


@dataclass(frozen=True)
class Results:
    """The results of a run, a comparison or a sweep on the disk.

        results = load("runs/demo")
        results.metrics.groupby(["arm", "step"])["agent/weight_norm"].mean()

    Every frame has the columns `arm` and `seed`, and for a sweep `study` before them. Each setting that varies is a
    column too, and `hooks` is the arm without its values. The rows of an arm begin with those of the trunk from which
    it was forked. A run that is not part of a comparison is one arm, named by its hooks.
    pandas is imported when a frame is first used. A notebook shows a table of the arms, their seeds and steps.

    Attributes:
        path: The folder.
        studies: The data by study; under "" if the folder is not a sweep.
    """

    path: Path
    studies: Mapping[str, ComparisonData]

    def __repr__(self) -> str:
        lines = [f"Results of {self.path!s}"]
        for name, data in self.studies.items():
            reached = max(run.last_step for run in data.runs)
            lines.append(
                f"{name or data.first.spec.kind}: {len(data.arms)} arms, {data.seeds} seeds, {reached:,} of "
                f"{data.total_steps:,} {data.unit}"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return a table with one row per arm, for notebooks."""
        from pandas import DataFrame

        rows = []
        for study, data in self.studies.items():
            for arm, runs in data.arms.items():
                steps = f"{min(run.last_step for run in runs):,} of {data.total_steps:,}"
                row = {"kind": data.first.spec.kind, "arm": arm, "seeds": ", ".join(str(run.seed) for run in runs)}
                rows.append({**({"study": study} if study else {}), **row, data.unit: steps})
        html: str = DataFrame(rows).fillna("").to_html(index=False, max_rows=MOST_ROWS)
        return html

    @cached_property
    def metrics(self) -> "DataFrame":
        """Return measurements and evaluations: step, task and one column per name. A row is a line of the log."""
        return self.frame(lambda run: run.metrics)

    @cached_property
    def episodes(self) -> "DataFrame":
        """Return the finished episodes of agents: last step, task, return, length, exploded. Empty for other kinds."""

        def rows(run: RunData) -> Iterable[dict[str, Any]]:
            episodes = run.episodes
            steps, exploded = episodes.steps.astype(int), episodes.exploded.astype(object)
            columns = zip(steps, episodes.tasks, episodes.returns, episodes.lengths, exploded, strict=True)
            return (dict(zip(("step", "task", "return", "length", "exploded"), row, strict=True)) for row in columns)

        return self.frame(rows)

    @cached_property
    def tasks(self) -> "DataFrame":
        """Return the accuracies or losses of each finished task. Empty for agents."""
        return self.frame(lambda run: run.outcomes)

    @cached_property
    def events(self) -> "DataFrame":
        """Return interventions, task switches and other events. Metrics before and after are dictionaries."""
        return self.frame(lambda run: run.events)

    def parts(self, count: int = 1, metrics: Sequence[str] = (), limit: int | None = None) -> "DataFrame":
        """Return what the runs did in each of `count` equal parts of each task.

        A row has the task, the part (from 0), the number of episodes that ended in it, their mean return, the last,
        lowest and highest value of each of these `metrics` (`NAME.last`, …) and, with `limit`, the share of episodes
        that were `reached`, since they were shorter than this number of steps.

            load("runs/rooms").parts(4, limit=100).groupby(["arm", "task", "part"])["reached"].mean()

        Raises:
            UsageError: `count` is below 1.
        """
        return self.frame(lambda run: parts_of(run, count, metrics, limit))

    def performance(self) -> "DataFrame":
        """Return how well each task was done after each task: a row for task `on`, evaluated after task `after`.

        Its `value` is the mean return of agents (see --eval-tasks), or the accuracy, score or loss of other kinds.
        Tasks are counted from 0.

            load("runs/a").performance().pivot_table("value", "after", "on")
        """
        return self.frame(performance_of)

    @cached_property
    def scores(self) -> dict[str, Any]:
        """Return the scores in the report's scores.json; for a sweep, by study."""
        scores = {
            study: resolve_name(data.first.spec.kind_row.report).compose([self.path / study]).scores
            for study, data in self.studies.items()
        }
        return scores.get("", scores)

    def frame(self, rows: Callable[[RunData], Iterable[dict[str, Any]]]) -> "DataFrame":
        """Return a frame with the rows that a function gives for each run of a seed, behind those columns."""
        from pandas import DataFrame

        lines: list[dict[str, Any]] = []
        for study, data in self.studies.items():
            for arm, runs in data.arms.items():
                text, variant = data.point(arm)
                values = {name: tuple(x) if isinstance(x, list) else x for name, x in variant.items()}  # to group by
                varied = {**values, "hooks": text} if values else {}
                for run in runs:
                    labels = {**({"study": study} if study else {}), "arm": arm, "seed": run.seed, **varied}
                    lines += [labels | row for row in rows(run)]
        return DataFrame(lines, columns=None if lines else ["study", "arm", "seed"]["" in self.studies :])


def load(path: str | Path, *, plugin: str | Sequence[str] = ()) -> Results:
    """Return the results so far of a run, a comparison or a sweep, or of hf:OWNER/NAME, a folder on the hub.

    Studies without a started run are left out, and so are the points at which arms were tuned. `plugin` names the
    plug-ins that register the kind of the runs; others are not needed to read them.

    Raises:
        UsageError: A plug-in cannot be loaded, the folder is none of these, or a log in it is damaged.
        RunError: Another file in it is damaged, or it cannot be loaded from the hub.
    """
    plugins.load_here(plugin)
    path = local_folder(path)
    if not (path / FILE).is_file():
        return Results(path, {"": collect(path)})
    begun = [folder for folder in folders_of(path) if folder.name != TUNING and files_of_runs(folder, RUN)]
    return Results(path, {str(folder.relative_to(path)): collect(folder) for folder in begun})
