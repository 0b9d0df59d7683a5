"""Reports of deep linear networks: what an arm learned, forgot and changed."""

from ....reports.study_report import Said, of_studies
from .tables import compared, linear

LINEAR = of_studies("Deep linear networks", lambda study, cells: Said(linear(study, cells), compared=compared(cells)))
