"""Reports of deep linear networks: what an arm learned, forgot and changed."""

from ....reports.of_studies import Said, of_studies
from .tables import compared_measures, linear_tables

LINEAR = of_studies(
    "Deep linear networks", lambda study, cells: Said(linear_tables(study, cells), compared=compared_measures(cells))
)
