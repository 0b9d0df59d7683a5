"""Reports on language models: pretraining, fine-tuning, image–text models, and sequences of tasks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from supple.experiments.history.data import ComparisonData
from supple.reports.studies.evaluation_tables import summary_tables
from supple.reports.studies.evaluations import Cell, gaps
from supple.reports.study_report import StudyParts, final_values, make_report
from supple.reports.tables.old_tasks import old_tasks_json, read_old_tasks

from .continual import collect_scores, compared_measures, order_line, summary_table, tasks_table, to_json
from .tables import gap_line, pretraining_tables, tuning_tables

if TYPE_CHECKING:
    from supple.reports.figures.style import Plot


def _pretraining(study: ComparisonData, cells: Sequence[Cell]) -> StudyParts:
    def plots() -> "list[Plot | None]":
        from .losses import draw_validation_loss

        return [draw_validation_loss(study)]

    return StudyParts(
        pretraining_tables(study, cells),
        [gap_line(gaps(cells))],
        plots,
        compared=final_values(cells, ["val_loss"]),
    )


def _tuning(study: ComparisonData, cells: Sequence[Cell]) -> StudyParts:
    from .fronts import draw_fronts, find_trade_off, fronts_table

    if (trade_off := find_trade_off(cells)) is None:
        return StudyParts(tuning_tables(study, cells))
    return StudyParts([*tuning_tables(study, cells), fronts_table(trade_off)], plots=lambda: [draw_fronts(trade_off)])


def _continual(study: ComparisonData, cells: Sequence[Cell]) -> StudyParts:
    learned, old = collect_scores(cells), read_old_tasks(study)

    def plots() -> "list[Plot | None]":
        from .atom_maps import draw_stored_maps
        from .score_matrix import draw_along_stream, plot_matrices

        return [draw_along_stream(learned), plot_matrices(study, learned), draw_stored_maps(study)]

    tables = [summary_table(study, learned), tasks_table(learned)]
    more = [to_json(scores) | old_tasks_json(old, scores.cell.label) for scores in learned]
    measures = compared_measures(learned)
    return StudyParts(tables, [order_line(learned)], plots, more, measures, old)


PRETRAIN = make_report("pretraining", _pretraining, apart=True)
SFT = make_report("supervised fine-tuning", _tuning)
CLIP = make_report("image–text pretraining", lambda study, cells: StudyParts(summary_tables(study, cells)))
CONTINUAL = make_report("continual learning", _continual, named="method")
