"""The common parts of the reports of language models and linear networks, which compare variants of settings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from supple.engine.storage.strict_json import strict_json
from supple.experiments.comparisons.grid import Point

from .studies.content import Content, Report, SideBySide
from .studies.evaluation_tables import is_share
from .studies.evaluations import Cell, compared_names, read_cells, to_json
from .studies.study import ReportedStudy, read_study
from .tables.differences import Measure, difference_tables, differences, differences_json, lead, missing_lead, verdict
from .tables.old_tasks import OldTasks, old_tasks_tables, sentences
from .tables.statistics import NAN, Spread
from .tables.table import Table

if TYPE_CHECKING:
    from .figures.style import Plot


Compared = Mapping[tuple[str, bool], Sequence[Spread]]


@dataclass(frozen=True)
class StudyParts:
    """The parts of a study's report that depend on the kind.

    Attributes:
        tables: Tables.
        lines: Sentences that summarise the tables.
        plots: Returns the kind's own figures.
        more: Further keys of each cell in scores.json.
        compared: The numbers by which arms are compared: name, and whether they are shares → one spread per cell. None
            for the final values of all evaluated numbers.
        old_tasks: What became of old tasks.
    """

    tables: list[Table]
    lines: list[str] = field(default_factory=list)
    plots: "Callable[[], Sequence[Plot | None]]" = tuple
    more: Sequence[dict[str, Any]] = ()
    compared: Compared | None = None
    old_tasks: Sequence[OldTasks] = ()


def make_report(
    title: str, describe: Callable[[ReportedStudy, Sequence[Cell]], StudyParts], named: str = "", apart: bool = False
) -> Report:
    """Return the report of a kind.

    Args:
        title: The title of its page.
        describe: Returns the parts that depend on the kind.
        named: See `SideBySide`.
        apart: Whether each variant has its own figures.
    """

    def compose(paths: Sequence[Path]) -> Content:
        study = read_study(paths)
        cells = read_cells(study)
        parts = describe(study, cells)
        measures = _measures(
            study, cells, final_values(cells, compared_names(cells)) if parts.compared is None else parts.compared
        )
        compared = differences(measures)
        described = [table for table in parts.tables if table.rows]
        tables = [*described, *difference_tables(compared), *old_tasks_tables(parts.old_tasks)]
        lines = [line for line in parts.lines if line]
        said = [*verdict(compared), *sentences(parts.old_tasks)]

        def page(plots: "Sequence[Plot]", place: Path) -> str:
            from .pages.study_page import render_study  # templates take a moment

            sure = sentences(parts.old_tasks, sure=True)
            return render_study(study, title, tables, lines, measures, said, plots, place, sure)

        return Content(
            tables,
            to_json(study, cells, parts.more) | strict_json(differences_json(compared) | {"verdict": said}),
            lambda: _plots(study, parts, apart),
            page,
            [*said, *lines, *study.notes],
            measures,
            runs=study.runs,
        )

    return Report(compose, SideBySide(named))


def final_values(cells: Sequence[Cell], names: Sequence[str]) -> dict[tuple[str, bool], list[Spread]]:
    """Return the final values of these numbers, with one spread per cell, as in `StudyParts.compared`."""
    return {(f"final {name.replace('_', ' ')}", is_share(name)): final_spreads(cells, name) for name in names}


def final_spreads(cells: Sequence[Cell], name: str) -> list[Spread]:
    """Return the final values of a number, by seed, for each cell. NaN where it was not evaluated."""
    return [
        cell.numbers[name].final if name in cell.numbers else Spread(np.full(len(cell.runs), NAN), cell.seeds)
        for cell in cells
    ]


def _measures(study: ReportedStudy, cells: Sequence[Cell], compared: Compared) -> list[Measure]:
    """Return the measures, the one that leads the report first.

    Arms are compared within their variant, or with each other if each variant has one arm.
    """
    one_arm_each = len(study.cells) == len(study.groups)
    variants = [""] if one_arm_each else [group.words for group in study.groups]
    measures = []
    for (name, share), spreads in compared.items():
        for variant in variants:
            arms, points = {}, {}
            for cell, spread in zip(cells, spreads, strict=True):
                if one_arm_each or cell.group.words == variant:
                    arm = study.name(cell.group, cell.arm) if one_arm_each else cell.arm
                    arms[arm] = spread.by_seed
                    points[arm] = Point(cell.arm, cell.group.variant)
            measures.append(Measure(name, arms, share, variant, points))
    leads = study.first.leads
    study.notes.extend(missing_lead(measures, leads))
    return lead(measures, leads)


def _plots(study: ReportedStudy, parts: StudyParts, apart: bool) -> list["Plot"]:
    """Return all figures for which there are data: those of the kind, the first phase, then those of all runs."""
    from .studies.evaluation_figures import plot_first_phase, plot_views

    plots = [*parts.plots(), plot_first_phase(study)]
    return [*(plot for plot in plots if plot is not None), *plot_views(study, apart)]
