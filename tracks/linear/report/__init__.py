"""Reports of deep linear networks: what an arm learned, forgot and changed."""

from supple.reports.study_report import StudyParts, make_report

from .tables import compared_measures, linear_tables

LINEAR = make_report(
    "deep linear networks",
    lambda study, cells: StudyParts(linear_tables(study, cells), compared=compared_measures(cells)),
)
