"""The interface between reports and kinds of runs: what a kind declares, and what a report contains."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from supple.engine.kinds import Kind
from supple.engine.storage.strict_json import strict_json
from supple.experiments.history.data import ComparisonData, RunData
from supple.registry.errors import UsageError
from supple.reports.tables.differences import Measure, difference_tables, differences, differences_json, verdict
from supple.reports.tables.old_tasks import OldTasks, old_tasks_measures, old_tasks_tables
from supple.reports.tables.table import Table, join_words

from .side_by_side import gather

if TYPE_CHECKING:
    from supple.engine.loop import Warn
    from supple.reports.figures.style import Plot
    from supple.reports.figures.video import Video

LOAD = """from supple.experiments import load

results = load("PLACE")
results.metrics"""


@dataclass(frozen=True)
class Description:
    """What a kind says of its runs: of all of them, or of those of one benchmark.

    Attributes:
        data: The runs.
        what: What they learn, in words.
        scores: The kind's entries of scores.json.
        tables: The kind's tables.
        measures: The numbers by which arms are compared, the most important one first.
        plots: Returns the kind's figures, of which the first one is also the first on the page.
        lines: Sentences that summarise the tables.
        notes: Sentences on what is missing.
        old_tasks: What became of old tasks.
    """

    data: ComparisonData
    what: str
    scores: dict[str, Any]
    tables: Sequence[Table]
    measures: Sequence[Measure]
    plots: "Callable[[], Iterable[Plot | None]]"
    lines: Sequence[str] = ()
    notes: Sequence[str] = ()
    old_tasks: Sequence[OldTasks] = ()


@dataclass(frozen=True)
class Report:
    """The report of one kind of run.

    Attributes:
        title: What these runs are called.
        describe: Returns what there is to say of some runs.
        named: A setting that is part of the name of an arm, together with its hooks, where runs are side by side; ""
            for none. None if runs of this kind cannot be shown so.
        benchmark: Returns the benchmark of a run, if runs of several can be side by side: scores.json is by benchmark.
        compared: Returns a table over several benchmarks.
        since_fork: Whether runs are shown from where they were forked (see `collect.load`).
        videos: "module:name" of a function that records videos of the arms.
        task: The Hugging Face hub's name of what these runs do.
        use: The lines of Python that use an exported run, in which PLACE is its folder.
    """

    title: str
    describe: Callable[[ComparisonData], Description]
    named: str | None = None
    benchmark: Callable[[RunData], str] | None = None
    compared: Callable[[dict[str, Description]], Table] | None = None
    since_fork: bool = False
    videos: str = ""
    task: str = "other"
    use: str = LOAD

    def compose(self, paths: Sequence[Path]) -> "Content":
        """Return the contents of the report of these directories. Raises UsageError if they have no common report."""
        return self.content(gather(paths, self.named, self.benchmark, self.since_fork))

    def content(self, found: Mapping[str, ComparisonData]) -> "Content":
        """Return the contents of the report of these runs, by benchmark."""
        parts = {name: self.describe(data) for name, data in found.items()}
        several = len(parts) > 1
        tables = [self.compared(parts)] if self.compared and several else []
        verdicts: list[str] = []
        notes: list[str] = []
        measures: list[Measure] = []
        of_old_tasks: list[Measure] = []
        bodies: dict[str, dict[str, Any]] = {}
        for name, part in parts.items():
            prefix, old = f"{name}: " if several else "", old_tasks_measures(part.old_tasks)
            compared = differences(part.measures)
            said = verdict([*compared, *differences(old)])
            own = [table for table in part.tables if table.rows]
            own += [*difference_tables(compared), *old_tasks_tables(part.old_tasks)]
            tables += [replace(table, title=_title_of(table, name)) for table in own] if several else own
            verdicts += [prefix + line for line in said]
            notes += [prefix + note for note in part.notes]
            measures += _placed(part.measures, name) if several else part.measures
            of_old_tasks += _placed(old, name) if several else old
            bodies[name] = part.scores | differences_json(compared) | {"notes": part.notes, "verdict": said}
        first = next(iter(found.values())).first
        body = {"benchmarks": bodies} if self.benchmark else next(iter(bodies.values()))
        scores = strict_json({"supple": first.supple, "algorithm": first.spec.kind, **body})
        return Content(self, parts, scores, tables, measures, of_old_tasks, verdicts, notes)


@dataclass(frozen=True)
class Content:
    """The contents of a report.

    Attributes:
        report: The report of the kind of run.
        parts: What it says of the runs, by benchmark.
        scores: The contents of scores.json.
        tables: Tables for the page and the terminal.
        measures: The numbers by which arms are compared.
        of_old_tasks: Those on old tasks, by which they are compared in words only.
        verdict: Sentences on differences between arms.
        notes: Sentences on what is missing.
        videos: Videos of the trained agents.
    """

    report: Report
    parts: Mapping[str, Description]
    scores: dict[str, Any]
    tables: list[Table]
    measures: list[Measure]
    of_old_tasks: list[Measure]
    verdict: list[str]
    notes: list[str]
    videos: "Sequence[Video]" = ()

    @property
    def data(self) -> ComparisonData:
        """The runs of the first part."""
        return next(iter(self.parts.values())).data

    @property
    def runs(self) -> list[RunData]:
        """All runs, one per seed. Seeds that were trained as a stack have the same path."""
        return [run.as_logged for part in self.parts.values() for run in part.data.runs]

    @property
    def what(self) -> str:
        """The runs in words, such as `PPO on CartPole-v1`."""
        title = self.report.title or self.data.first.spec.kind.upper()
        return f"{title} on {join_words([part.what for part in self.parts.values()])}"

    @property
    def lines(self) -> list[str]:
        """The sentences that the terminal shows below the tables."""
        return [*self.verdict, *chain.from_iterable(part.lines for part in self.parts.values()), *self.notes]

    def with_videos(self, warn: "Warn") -> "Content":
        """Return these contents with videos. Raises UsageError if runs of this kind have none."""
        if not self.report.videos:
            raise UsageError(f"--video: {self.data.path} trains no agent, so there is no episode to show")
        return replace(self, videos=resolve_name(self.report.videos)(self.data, warn))


def _placed(measures: Sequence[Measure], benchmark: str) -> list[Measure]:
    return [replace(m, name=f"{m.name} on {benchmark}", family=m.group, place=benchmark) for m in measures]


def _title_of(table: Table, benchmark: str) -> str:
    return benchmark.capitalize() if table.title == "Summary" else f"{table.title}, {benchmark}"


def report_of(kind: Kind) -> Report:
    """Return the report of a kind of run."""
    report: Report = resolve_name(kind.report)
    return report
