"""Reports of deep linear networks: what an arm learned, forgot and changed."""

from supple.experiments.history.data import ComparisonData
from supple.reports.studies.content import Description, Report
from supple.reports.studies.evaluations import read_cells
from supple.reports.study_report import describe_evaluations

from .tables import compared_measures, linear_tables


def _describe(data: ComparisonData) -> Description:
    cells = read_cells(data)
    return describe_evaluations(data, cells, linear_tables(data, cells), compared_measures(data, cells))


LINEAR = Report("deep linear networks", _describe, "", since_fork=True)
