"""Reports of deep linear networks: what an arm learned, forgot and changed."""

from ....reports.study_report import StudyParts, make_report
from .tables import compared, linear

LINEAR = make_report(
    "Deep linear networks", lambda study, cells: StudyParts(linear(study, cells), compared=compared(cells))
)
