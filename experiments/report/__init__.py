"""Reports: from run directories, or a comparison of arms, to pages, figures, tables and scores."""

import gc
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from .. import files
from ..kinds import find_kind
from . import exports, run_pages
from .collect import ComparisonData, RunData, kind_of, load
from .kind import Content
from .lines import read_jsonl
from .style import Plot
from .tables import printable

if TYPE_CHECKING:
    from rich.console import Group

__all__ = ["ComparisonData", "ReportPaths", "RunData", "build_report", "load", "read_jsonl", "summary_table"]


@dataclass(frozen=True)
class ReportPaths:
    """Name the files of a report. plots: its figures, as they were drawn."""

    folder: Path
    plots: tuple[Plot, ...]

    @property
    def html(self) -> Path:
        return self.folder / "index.html"

    @property
    def scores(self) -> Path:
        return self.folder / "scores.json"

    def __str__(self) -> str:
        return f"report: {self.html}\nscores: {self.scores}"

    @property
    def figures(self) -> tuple[Path, ...]:
        return tuple(self.folder / f"{plot.name}.png" for plot in self.plots)


def build_report(*directories: Path, out: Path | None = None) -> ReportPaths:
    """Write `out/report/`: index.html, the figures it shows (PNG and SVG), its tables (CSV and LaTeX), scores.json.

    directories: a run directory, or a comparison directory of `supple compare`, or several runs of one kind, other than
        agents, to show side by side; unfinished ones are reported as far as they came.
    out: by default the directory itself; several need one. It is made where it is not there. The report is written
        beside its place and then swapped in, so a reader never sees half of one.

    scores.json is strict JSON; what was not measured is null. Its keys are described where each kind's are made: agents
    in `agents.report.scores.to_json`, classifiers in `tracks.vision.report.scores.to_json`, language models and linear
    networks in `cells.to_json`.

    Raises ValueError, in one line, for a directory that holds neither a run nor a comparison, an unknown kind of runs,
    a damaged file, several directories without `out`, and runs that do not go side by side.
    """
    return write(compose(*directories), place_of(directories, out))


def place_of(directories: Sequence[Path], out: Path | None) -> Path:
    """Return the folder in which the report of these directories is made. Raises ValueError as `build_report`."""
    if out is None and len(directories) > 1:
        raise ValueError("several runs side by side need a folder for their report (--out DIR)")
    return Path(out or directories[0])


def write(report: Content, place: Path) -> ReportPaths:
    """Write what a report says to `place/report/`."""
    place.mkdir(parents=True, exist_ok=True)
    with _uncollected(), files.in_turn(place):  # two that finish one comparison both write its report
        plots = _write(report, place)
    return ReportPaths(place / "report", tuple(plots))


def _write(report: Content, place: Path) -> list[Plot]:
    """Write `place/report/` beside its place and swap it in; return its plots."""
    target, temporary, old = (place / name for name in ("report", "report.tmp", "report.old"))
    for leftover in (temporary, old):
        shutil.rmtree(leftover, ignore_errors=True)
    temporary.mkdir()
    try:
        plots = [*report.plots(), *_over_measures(report)]
        exports.write(temporary, [*report.tables, *report.more], plots)
        if len({run.path for run in report.runs}) > 1:
            run_pages.write(temporary, report.runs)
        body = json.dumps(report.scores, indent=2, allow_nan=False, ensure_ascii=False)
        (temporary / "scores.json").write_text(body + "\n", encoding="utf-8")
        (temporary / "index.html").write_text(report.page(plots), encoding="utf-8")
        if target.exists():
            target.rename(old)
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)
    return plots


def _over_measures(report: Content) -> list[Plot]:
    """Return the figures of the numbers in which arms are compared: against what varies, and as profiles."""
    from .arms import by_family
    from .profiles import profiles
    from .sensitivity import sensitivity

    first = next(iter(by_family(report.measures).values()), [])
    return [*sensitivity(first), *filter(None, [profiles(first)])] if first else []


def summary_table(*directories: Path) -> "Group":
    """Return the report's tables for the terminal."""
    return summary(compose(*directories), str(directories[0]) if len(directories) == 1 else None)


def summary(report: Content, title: str | None = None) -> "Group":
    """Return what a report says for the terminal. title: of its first table, in place of its own."""
    from rich.console import Group
    from rich.text import Text

    first, *others = report.tables
    tables = [replace(first, title=title) if title else first, *others]
    return Group(*map(printable, tables), *map(Text, report.lines))


def compose(*directories: Path) -> Content:
    """Return what the report of these directories says. Raises ValueError as `build_report`."""
    paths = [Path(directory) for directory in directories]
    with _uncollected():
        return find_kind(kind_of(paths[0])).reports().compose(paths)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the collector of reference cycles from looking for them, again and again, in all that was read: of long logs
    that takes as long as a fifth of the report."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
