"""The board: what methods score on one small suite, whose rows are in the repository as data.

`bench.toml` is the suite, `rows/NAME/` a method: row.json, which `supple bench --save` writes, and about.md, which says
in words what the method is and how its numbers were chosen.
"""

from .row import Result, Row, read_row, rows, write_row
from .scoring import CONTROLS, bench, row_of, suite
from .standing import Standing, standings

__all__ = [
    "CONTROLS", "Result", "Row", "Standing", "bench", "read_row", "row_of", "rows", "standings", "suite", "write_row",
]  # fmt: skip
