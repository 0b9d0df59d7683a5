"""The report of a sweep: the outcomes of its runs, and the arms, figures and runs of every study, on one page."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from supple.experiments.history.collect import failures
from supple.experiments.queue.queue import FAILED, FINISHED
from supple.experiments.sweeps.study import Published
from supple.experiments.sweeps.tuning import TUNING

from . import FOLDER, SCORES, ReportPaths, compose, replacing, summary, write
from .pages import exports
from .pages.exports import with_file_names
from .pages.page import template
from .pages.run_list import RunLine, outcomes, run_lines
from .tables.arms import arms_table, group_by_family, overall_table, pairs_table
from .tables.differences import group_by
from .tables.published import tuning_tables
from .tables.table import Table, TableRows

if TYPE_CHECKING:
    from rich.console import Group

    from .figures.style import Plot

LIMITS = "The limits of each study are in its own report. Scores of different studies cannot be compared."
# the figures of a study that are on the page in addition to its first one, which each variant may have
OF_OVERVIEW = ("sensitivity_", "performance_profiles")


@dataclass(frozen=True)
class Section:
    """The part of the page about one study, whose own report has been written.

    `summary` and `paths` are for the terminal. `sentences` are its verdict and notes, and `failed` has one line per
    failed run. `first` are the tables that are visible when the page opens, and `others` those of its other numbers.
    """

    name: str
    summary: "Group"
    paths: tuple[str, ...]
    sentences: list[str]
    failed: list[str]
    first: list[Table]
    others: list[Table]
    tuned: list[Table]
    figures: "list[Plot]"
    runs: list[RunLine]
    scores: dict[str, Any]

    @property
    def tables(self) -> list[Table]:
        return [*self.first, *self.others, *self.tuned]


def write_study_report(name: str, folder: Path, published: Published | None) -> Section:
    """Write the report of a study, and return the part of the page about it.

    Raises UsageError if none of its runs has started, or a file is damaged.
    """
    content = compose(folder)
    paths = write(content, folder)
    families: list[list[Table]] = []
    for family, measures in group_by_family(content.measures).items():
        known = None if families else published  # numbers of the measure that leads
        together = overall_table(family, measures, known)  # of several environments, there is one number for all
        by_name = enumerate(group_by(measures, attrgetter("name")).values())  # one per variant of the settings
        own = [arms_table(of_name, None if together or i else known) for i, of_name in by_name]
        families.append(list(filter(None, [together, *own, pairs_table(family, measures)])))
    first, *others = families or [content.tables[:1]]
    main = paths.plots[0].title.split(":")[0] if paths.plots else ""
    figures = [plot for plot in paths.plots if plot.title.split(":")[0] == main or plot.name.startswith(OF_OVERVIEW)]

    def with_name(tables: Iterable[Table]) -> list[Table]:
        return [replace(table, title=f"{name}: {table.title}") for table in tables]

    return Section(
        name, summary(content.tables, content.lines, str(folder)), paths.lines, content.lines, failures(folder),
        with_name(first), with_name(chain.from_iterable(others)), with_name(tuning_tables(folder)), figures,
        run_lines(folder, content.runs), content.scores,
    )  # fmt: skip


def count_runs(path: Path, planned: Mapping[str, int]) -> Table:
    """Return a table of how many runs of each study have ended. `planned` has their total numbers, by study."""
    rows: TableRows = []
    for name, runs in planned.items():
        ended = Counter(outcomes(path / name))
        rows.append([name, runs, ended[FINISHED], ended[FAILED], runs - ended[FINISHED] - ended[FAILED]])
    return Table("Runs", ["study", "runs", "finished", "failed", "left"], rows, turns=False)


def write_sweep(path: Path, counts: Table, sections: Sequence[Section], title: str = "") -> ReportPaths:
    """Write the report of a sweep from the table of `count_runs` and the parts about studies that have started."""
    names, runs, _, failed, _ = zip(*counts.rows, strict=True)
    studies = [str(name) for name in names if Path(str(name)).name != TUNING]
    tables = [counts, *(table for section in sections for table in section.tables)]
    file_names = {id(table): name for name, table in with_file_names(tables)}
    with replacing(path) as folder:
        exports.put_json(folder / SCORES, {"studies": {section.name: section.scores for section in sections}})
        exports.write(folder, tables, [])
        page = template("sweep.html").render(
            what="sweep", title=title or ", ".join(studies), path=path.resolve().name,
            facts=[
                (f"{len(studies):,}", "study" if len(studies) == 1 else "studies"),
                (f"{sum(runs):,}", "runs"),
                (f"{sum(failed):,}", "failed"),
            ],
            limits=LIMITS, tables=[counts], sections=sections,
            file_of=lambda table: file_names[id(table)],
        )  # fmt: skip
        exports.put(folder / "index.html", page)
    return ReportPaths(path / FOLDER, ())
