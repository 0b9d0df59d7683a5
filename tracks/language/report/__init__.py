"""Reports on language models: pretraining, fine-tuning, image–text models, and sequences of tasks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....reports.studies.evaluation_tables import plain
from ....reports.studies.evaluations import Cell, gaps
from ....reports.studies.study import Study
from ....reports.study_report import Said, finals, of_studies
from .continual import compared, learned, order_line, summary, tasks_table, to_json
from .tables import gap_line, pretraining, tuning

if TYPE_CHECKING:
    from ....reports.figures.style import Plot


def _pretraining(study: Study, cells: Sequence[Cell]) -> Said:
    def plots() -> "list[Plot | None]":
        from .losses import validation_loss

        return [validation_loss(study)]

    return Said(
        pretraining(study, cells),
        [gap_line(gaps(study, cells))],
        plots,
        compared=finals(cells, ["val_loss"]),
    )


def _tuning(study: Study, cells: Sequence[Cell]) -> Said:
    from .fronts import fronts, fronts_table, trade_off

    if (found := trade_off(cells)) is None:
        return Said(tuning(study, cells))
    return Said([*tuning(study, cells), fronts_table(found)], plots=lambda: [fronts(found)])


def _continual(study: Study, cells: Sequence[Cell]) -> Said:
    found = learned(cells)

    def plots() -> "list[Plot | None]":
        from .atom_maps import stored_maps
        from .score_matrix import along_the_stream, matrices

        return [along_the_stream(study, found), matrices(study, found), stored_maps(study)]

    tables = [summary(study, found), tasks_table(study, found)]
    return Said(tables, [order_line(study, found)], plots, [to_json(each) for each in found], compared(found))


PRETRAIN = of_studies("Pretraining", _pretraining, apart=True)
SFT = of_studies("Supervised fine-tuning", _tuning)
CLIP = of_studies("Image–text pretraining", lambda study, cells: Said(plain(study, cells)))
CONTINUAL = of_studies("Continual learning", _continual, named="method")
