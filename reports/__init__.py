"""Reports: pages, figures, tables and scores of run directories or of a comparison of arms."""

import gc
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from supple.engine.storage import files, signed_json
from supple.experiments.history.collect import kind_of, load
from supple.experiments.history.data import ComparisonData, RunData
from supple.experiments.history.logs import read_jsonl
from supple.registry.errors import UsageError

from .pages import exports
from .studies.content import Content, report_of
from .tables.table import Table

if TYPE_CHECKING:
    from rich.console import Group

    from .figures.style import Plot

__all__ = ["ComparisonData", "ReportPaths", "RunData", "build_report", "load", "read_jsonl", "summary_table"]

FOLDER, SCORES = "report", "scores.json"


@dataclass(frozen=True)
class ReportPaths:
    """The files of a report, and its figures as they were drawn."""

    folder: Path
    plots: "tuple[Plot, ...]"

    @property
    def html(self) -> Path:
        return self.folder / "index.html"

    @property
    def scores(self) -> Path:
        return self.folder / SCORES

    @property
    def lines(self) -> tuple[str, str]:
        """Two lines for the terminal: the paths of the page and of the scores."""
        return f"report: {self.html}", f"scores: {self.scores}"

    @property
    def figures(self) -> tuple[Path, ...]:
        return tuple(self.folder / f"{plot.name}.png" for plot in self.plots)


def build_report(*directories: Path, out: Path | None = None) -> ReportPaths:
    """Write `out/report/`: index.html, its figures (PNG and SVG), its tables (CSV and LaTeX) and scores.json.

    scores.json is strict JSON, in which null stands for values that were not measured. It has `supple` (the version),
    `algorithm`, `notes`, `verdict`, the `differences` of `differences.differences_json`, and what each kind documents:
    agents in `agents.report.scores_json.to_json`, classifiers (in `benchmarks`, by name) in
    `tracks.vision.report.scores.to_json`, language models and linear networks in `evaluations.to_json`.

    Args:
        directories: A run directory, a comparison directory of `supple compare`, or several runs of one kind other than
            agents, to show side by side. Unfinished runs are reported as far as they came.
        out: The folder for `report/`, by default the directory itself. It is made if it does not exist, and is required
            for several directories. A new report replaces an old one only when it is complete, and never a folder
            called `report` that is no report.

    Raises:
        UsageError: A directory is neither a run nor a comparison, a kind of run is unknown, a file is damaged, `out` is
            missing or has another folder called `report`, or the runs cannot be shown side by side.
    """
    place = place_of(directories, out)
    return write(compose(*directories), place)


def place_of(directories: Sequence[Path], out: Path | None) -> Path:
    """Return the folder for the report of these directories.

    Raises:
        UsageError: Several directories have no `out`, or it has a folder called `report` that is no report.
    """
    if out is None and len(directories) > 1:
        raise UsageError("a report of several runs needs a folder: add --out DIR")
    place = Path(out or directories[0])
    if out is not None and not any(
        (place / name).is_file() for name in ("config.json", "comparison.json", "sweep.json")
    ):
        signed_json.require_outside(place)
    if place.is_dir():
        with files.lock_folder(place):  # another process may be replacing its report
            _require_replaceable(place / FOLDER)
    return place


def _require_replaceable(report: Path) -> None:
    """Raise UsageError if the folder of a new report has other contents, such as a run of that name."""
    if report.exists() and not (report / SCORES).is_file() and (report.is_file() or any(report.iterdir())):
        raise UsageError(f"{report} is not a report of supple, and is left alone: rename it, or choose another --out")


def write(content: Content, place: Path) -> ReportPaths:
    """Write a report to `place/report/`."""
    from .pages import page, run_pages  # pages are made of templates, which the table at the end of a run needs not

    with replacing(place) as folder:
        exports.put_json(folder / SCORES, content.scores)
        plots = plots_of(content)
        exports.write(folder, content.tables, plots)
        if len({run.path for run in content.runs}) > 1:
            run_pages.write(folder, content.runs)
        exports.put(folder / "index.html", page.render(content, plots, place))
    return ReportPaths(place / FOLDER, tuple(plots))


@contextmanager
def replacing(place: Path) -> Iterator[Path]:
    """Yield a temporary folder for a report, in which scores.json is written first, then make it `place/report/`."""
    report, old = place / FOLDER, place / f"tmp-{FOLDER}-0"
    place.mkdir(parents=True, exist_ok=True)
    # two processes that finish one comparison both write its report
    with _without_garbage_collection(), files.lock_folder(place):
        _require_replaceable(report)
        for left in files.leftovers(place, FOLDER):  # by a process that was killed here
            if (left / SCORES).is_file():  # as users' folders have not
                shutil.rmtree(left)
        with files.atomic_folder(report) as folder:
            yield folder
            if report.exists():
                report.rename(old)
        shutil.rmtree(old, ignore_errors=True)


def plots_of(content: Content) -> "list[Plot]":
    """Return all figures, first that of the measure that leads the report, then the first one of the kind of run."""
    from .figures.measures import plot_measures
    from .figures.profiles import profiles
    from .figures.sensitivity import sensitivity
    from .tables.arms import group_by_family

    first, *others = group_by_family(content.measures).values() or [[]]
    several = len(content.parts) > 1
    drawn = ((name if several else "", plot) for name, part in content.parts.items() for plot in part.plots())
    plots = [plot.of(name) for name, plot in drawn if plot]
    found = [plot_measures(first), *plots[:1], *sensitivity(first), profiles(first), *plots[1:]]
    found += [plot_measures(measures, folded=True) for measures in others]
    return sorted(filter(None, found), key=lambda plot: plot.folded)


def summary_table(*directories: Path) -> "Group":
    """Return the report's tables for the terminal."""
    content = compose(*directories)
    return summary(content.tables, content.lines, str(directories[0]) if len(directories) == 1 else None)


def summary(tables: Sequence[Table], lines: Sequence[str], title: str | None = None) -> "Group":
    """Return tables and sentences for the terminal. `title` replaces the title of the first table."""
    from rich.console import Group
    from rich.text import Text

    first, *others = tables
    return Group(replace(first, title=title) if title else first, *others, *map(Text, lines))


def compose(*directories: Path) -> Content:
    """Return the contents of the report of these directories. Raises the errors of `build_report`."""
    paths = [Path(directory) for directory in directories]
    with _without_garbage_collection():
        return report_of(kind_of(paths[0])).compose(paths)


def compose_logs(paths: Sequence[Path], tag: str | None = None) -> Content:
    """Return the contents of the report of logs of other programs. Raises UsageError as `read_others` does."""
    from supple.experiments.history.others import read_others  # pandas takes a moment

    from .logs import LOGS

    return LOGS.content({"": read_others(paths, tag)})


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Turn off the garbage collector, which would search all that was read many times: up to a fifth of a report."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
