"""Reports on language models: pretraining, fine-tuning, image–text models, and sequences of tasks."""

from typing import TYPE_CHECKING

from supple.experiments.history.data import ComparisonData
from supple.reports.studies.content import Description, Report
from supple.reports.studies.evaluations import gaps, read_cells
from supple.reports.study_report import describe_evaluations, final_measures, summarize
from supple.reports.tables.old_tasks import old_tasks_json, read_old_tasks

from .continual import collect_scores, compared_measures, order_line, summary_table, tasks_table, to_json
from .tables import gap_line, pretraining_tables, tuning_tables

if TYPE_CHECKING:
    from supple.reports.figures.style import Plot


def _describe_pretraining(data: ComparisonData) -> Description:
    def plots() -> "list[Plot | None]":
        from supple.reports.studies.evaluation_figures import plot_validation_loss

        return [plot_validation_loss(data)]

    cells = read_cells(data)
    tables, measures = pretraining_tables(data, cells), final_measures(data, cells, ["val_loss"])
    return describe_evaluations(data, cells, tables, measures, plots, [gap_line(gaps(cells))], apart=True)


def _describe_tuning(data: ComparisonData) -> Description:
    from .fronts import draw_fronts, find_trade_off, fronts_table

    cells = read_cells(data)
    trade_off, tables = find_trade_off(cells), tuning_tables(data, cells)
    if trade_off is None:
        return describe_evaluations(data, cells, tables)
    return describe_evaluations(data, cells, [*tables, fronts_table(trade_off)], plots=lambda: [draw_fronts(trade_off)])


def _describe_continual(data: ComparisonData) -> Description:
    cells = read_cells(data)
    learned, old = collect_scores(cells), read_old_tasks(data)

    def plots() -> "list[Plot | None]":
        from .atom_maps import draw_stored_maps
        from .score_matrix import draw_along_stream, plot_matrices

        return [draw_along_stream(learned), plot_matrices(data, learned), draw_stored_maps(data)]

    tables = [summary_table(data, learned), tasks_table(learned)]
    more = [to_json(scores) | old_tasks_json(old, scores.cell.label) for scores in learned]
    measures = compared_measures(data, learned)
    return describe_evaluations(data, cells, tables, measures, plots, [order_line(learned)], more, old)


PRETRAIN = Report("pretraining", _describe_pretraining, "", since_fork=True, task="text-generation")
SFT = Report("supervised fine-tuning", _describe_tuning, "", since_fork=True, task="text-generation")
CLIP = Report("image–text pretraining", summarize, "", since_fork=True, task="zero-shot-image-classification")
CONTINUAL = Report("continual learning", _describe_continual, "method", since_fork=True)
