"""Reports on language models: pretraining, fine-tuning, image–text models, and sequences of tasks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....reports.studies.evaluation_tables import summary_tables
from ....reports.studies.evaluations import Cell, gaps
from ....reports.studies.study import ReportedStudy
from ....reports.study_report import StudyParts, final_values, make_report
from .continual import compared, learned, order_line, summary, tasks_table, to_json
from .tables import gap_line, pretraining, tuning

if TYPE_CHECKING:
    from ....reports.figures.style import Plot


def _pretraining(study: ReportedStudy, cells: Sequence[Cell]) -> StudyParts:
    def plots() -> "list[Plot | None]":
        from .losses import validation_loss

        return [validation_loss(study)]

    return StudyParts(
        pretraining(study, cells),
        [gap_line(gaps(study, cells))],
        plots,
        compared=final_values(cells, ["val_loss"]),
    )


def _tuning(study: ReportedStudy, cells: Sequence[Cell]) -> StudyParts:
    from .fronts import fronts, fronts_table, trade_off

    if (found := trade_off(cells)) is None:
        return StudyParts(tuning(study, cells))
    return StudyParts([*tuning(study, cells), fronts_table(found)], plots=lambda: [fronts(found)])


def _continual(study: ReportedStudy, cells: Sequence[Cell]) -> StudyParts:
    found = learned(cells)

    def plots() -> "list[Plot | None]":
        from .atom_maps import stored_maps
        from .score_matrix import along_the_stream, matrices

        return [along_the_stream(study, found), matrices(study, found), stored_maps(study)]

    tables = [summary(study, found), tasks_table(study, found)]
    return StudyParts(tables, [order_line(study, found)], plots, [to_json(each) for each in found], compared(found))


PRETRAIN = make_report("Pretraining", _pretraining, apart=True)
SFT = make_report("Supervised fine-tuning", _tuning)
CLIP = make_report("Image–text pretraining", lambda study, cells: StudyParts(summary_tables(study, cells)))
CONTINUAL = make_report("Continual learning", _continual, named="method")
