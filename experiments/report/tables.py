"""Numbers as words: the summary table of the page and of the terminal, and the reset contracts."""

from typing import Any

import numpy as np

from .collect import ComparisonData
from .scores import ArmScores, Scores, mean
from .style_text import bare

MISSING = "–"


def number(value: float | None, digits: int = 3) -> str:
    """A number with about this many digits and a true minus sign; a dash for what was not measured."""
    if value is None or not np.isfinite(value):
        return MISSING
    text = f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"
    return text.replace("-", "−")
