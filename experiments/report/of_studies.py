"""The report of a kind whose runs are told in variants of their settings: what all such kinds share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .cell_tables import PERCENT, heading
from .cells import Cell, evaluated_in, score, to_json
from .differences import Measure, differences, tables, verdict
from .differences import to_json as differences_json
from .kind import Beside, Content, Report
from .numbers import NAN, Spread, strict
from .study import Study, read_study
from .tables import Table

if TYPE_CHECKING:
    from .style import Plot


@dataclass(frozen=True)
class Said:
    """Hold what one kind says of a study: tables, lines that sum them up, figures of its own, what each cell's arm
    has in scores.json besides, and the numbers in which arms are compared, measure → each cell's (default: the final
    ones of all that was evaluated)."""

    tables: list[Table]
    lines: list[str] = field(default_factory=list)
    plots: "Callable[[], Sequence[Plot | None]]" = tuple
    more: Sequence[dict[str, Any]] = ()
    compared: Mapping[str, Sequence[Spread]] | None = None


def of_studies(
    title: str, say: Callable[[Study, Sequence[Cell]], Said], named: str = "", apart: bool = False
) -> Report:
    """Return the report of such a kind.

    title: what its page is called. say: what it says of its own. named: see `Beside`. apart: variants do not share
    figures."""

    def compose(paths: Sequence[Path]) -> Content:
        from .study_page import render

        study = read_study(paths)
        cells = score(study)
        said = say(study, cells)
        compared = finals(cells, evaluated_in(cells)) if said.compared is None else said.compared
        measures = _measures(study, cells, compared)
        found = differences(measures)
        every = [*said.tables, *tables(found)]
        lines, told = [line for line in said.lines if line], verdict(found)
        return Content(
            every,
            to_json(study, cells, said.more) | strict(differences_json(found)),
            lambda: _plots(study, said, apart),
            lambda plots: render(study, title, every, lines, told, plots),
            [*told, *lines, *study.notes],
            measures,
            runs=[run for runs in study.arms.values() for run in runs],
        )

    return Report(compose, beside=Beside(named))


def finals(cells: Sequence[Cell], names: Sequence[str]) -> dict[str, list[Spread]]:
    """Return heading → what each cell's runs ended with, of numbers by their names."""
    nothing = [Spread(np.full(len(cell.runs), NAN)) for cell in cells]
    return {
        f"final {heading(name)}": [
            cell.numbers[name].final if name in cell.numbers else no for cell, no in zip(cells, nothing, strict=True)
        ]
        for name in names
    }


def _measures(study: Study, cells: Sequence[Cell], compared: Mapping[str, Sequence[Spread]]) -> list[Measure]:
    """Return what is compared: arms within their variant; where variants have one arm each, these with each other."""
    alone = all(len(group.data.arms) == 1 for group in study.groups)
    variants = [""] if alone else [group.words for group in study.groups]
    found = []
    for name, spreads in compared.items():
        for variant in variants:
            arms, points = {}, {}
            for cell, spread in zip(cells, spreads, strict=True):
                if alone or cell.group.words == variant:
                    arm = study.name(cell.group, cell.arm) if alone else cell.arm
                    arms[arm] = dict(zip(cell.seeds, spread.values.tolist(), strict=True))
                    points[arm] = (cell.arm, cell.group.variant)
            found.append(Measure(name.removesuffix(PERCENT), arms, name.endswith(PERCENT), variant, points))
    return found


def _plots(study: Study, said: Said, apart: bool) -> list["Plot"]:
    """Every figure that the data allow: those of the kind, the phase that arms share, then those of every run."""
    from .evaluations import first_phase, of_views

    plots = [*said.plots(), first_phase(study)]
    return [*(plot for plot in plots if plot is not None), *of_views(study, apart)]
