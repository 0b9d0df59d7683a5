"""The report of a kind whose runs are told in variants of their settings: what all such kinds share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cells import Cell, score, to_json
from .kind import Beside, Content, Report
from .study import Study, read_study
from .tables import Table

if TYPE_CHECKING:
    from .style import Plot


@dataclass(frozen=True)
class Said:
    """Hold what one kind says of a study: tables, lines that sum them up, figures of its own, and what each cell's arm
    has in scores.json besides."""

    tables: list[Table]
    lines: list[str] = field(default_factory=list)
    plots: "Callable[[], Sequence[Plot | None]]" = tuple
    more: Sequence[dict[str, Any]] = ()


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
        lines = [line for line in said.lines if line]
        return Content(
            said.tables,
            to_json(study, cells, said.more),
            lambda: _plots(study, said, apart),
            lambda plots: render(study, title, said.tables, lines, plots),
            [*lines, *study.notes],
        )

    return Report(compose, beside=Beside(named))


def _plots(study: Study, said: Said, apart: bool) -> list["Plot"]:
    """Every figure that the data allow: those of the kind, the phase that arms share, then those of every run."""
    from .evaluations import first_phase, of_views

    plots = [*said.plots(), first_phase(study)]
    return [*(plot for plot in plots if plot is not None), *of_views(study, apart)]
