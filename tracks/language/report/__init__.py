"""Reports on language models: pretraining, fine-tuning, image–text models, and sequences of tasks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....reports.of_studies import Said, finals, of_studies
from ....reports.studies.cell_tables import plain
from ....reports.studies.cells import Cell, gaps
from ....reports.studies.study import Study
from .continual import collect_scores, compared_measures, order_line, summary_table, tasks_table, to_json
from .tables import gap_line, pretraining_tables, tuning_tables

if TYPE_CHECKING:
    from ....reports.figures.style import Plot


def _pretraining(study: Study, cells: Sequence[Cell]) -> Said:
    def plots() -> "list[Plot | None]":
        from .losses import draw_validation_loss

        return [draw_validation_loss(study)]

    return Said(
        pretraining_tables(study, cells),
        [gap_line(gaps(study, cells))],
        plots,
        compared=finals(cells, ["val_loss"]),
    )


def _tuning(study: Study, cells: Sequence[Cell]) -> Said:
    from .fronts import draw_fronts, find_trade_off, fronts_table

    if (trade_off := find_trade_off(cells)) is None:
        return Said(tuning_tables(study, cells))
    return Said([*tuning_tables(study, cells), fronts_table(trade_off)], plots=lambda: [draw_fronts(trade_off)])


def _continual(study: Study, cells: Sequence[Cell]) -> Said:
    learned = collect_scores(cells)

    def plots() -> "list[Plot | None]":
        from .atom_maps import draw_stored_maps
        from .score_matrix import draw_along_stream, draw_matrices

        return [draw_along_stream(study, learned), draw_matrices(study, learned), draw_stored_maps(study)]

    tables = [summary_table(study, learned), tasks_table(study, learned)]
    return Said(
        tables, [order_line(study, learned)], plots, [to_json(scores) for scores in learned], compared_measures(learned)
    )


PRETRAIN = of_studies("Pretraining", _pretraining, apart=True)
SFT = of_studies("Supervised fine-tuning", _tuning)
CLIP = of_studies("Image–text pretraining", lambda study, cells: Said(plain(study, cells)))
CONTINUAL = of_studies("Continual learning", _continual, named="method")
