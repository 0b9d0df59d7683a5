"""The board: scores of methods on one small suite. Its rows are in the repository as data.

`bench.toml` defines the suite. `rows/NAME/` has the results of a method: row.json, which `supple bench --save` writes,
and about.md, which describes the method and says how its hyperparameters were chosen.
"""

from .row import Result, Row, read_row, rows, write_row
from .scoring import CONTROLS, bench, conditions, row_of, suite
from .standing import Standing, standings

__all__ = [
    "CONTROLS", "Result", "Row", "Standing", "bench", "conditions", "read_row", "row_of", "rows", "standings", "suite",
    "write_row",
]  # fmt: skip
