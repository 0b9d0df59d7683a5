"""Curves as small SVG drawings inside a page, small enough for one page per run."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from supple.experiments.history.data import Series
from supple.metrics.arrays import Array
from supple.reports.tables.cells import number

POINTS = 120  # of a curve; with more, neighbouring points are averaged
WIDTH, HEIGHT = 600, 220
CURVE = Markup('<polyline points="{}"/>')
MARK = Markup('<line class="mark" x1="{0}" x2="{0}" y1="0" y2="{1}"/>')
DRAWING = Markup(
    '<svg viewBox="-8 -28 {w} {h}" role="img" aria-label="{title}">{marks}{curves}'
    '<text x="0" y="-8">{high}</text><text x="0" y="{bottom}">{low}</text>'
    '<text class="end" x="{right}" y="{bottom}">{end}</text></svg>'
)


def draw_curves(title: str, curves: Sequence[Series], end: int, marks: str = "") -> Markup:
    """Return curves over steps as an SVG element, with colours from the page's style sheet.

    Args:
        title: A text for those who do not see the curves.
        curves: Pairs of steps and values, each of shape (n,), finite and sorted by step.
        end: The last step of the horizontal axis, which begins at 0.
        marks: Vertical lines, from `draw_marks`.
    """
    curves = [thin(*curve) for curve in curves if curve[0].size]
    points = np.concatenate([values for _, values in curves]) if curves else np.zeros(1)
    low, high = float(points.min()), float(points.max())
    across, up = WIDTH / max(end, 1), HEIGHT / ((high - low) or 1.0)
    lines = [_points(steps * across, HEIGHT - (values - low) * up) for steps, values in curves]
    return DRAWING.format(
        w=WIDTH + 16, h=HEIGHT + 64, title=title, high=number(high), low=number(low), end=f"{end:,}", right=WIDTH,
        bottom=HEIGHT + 26, curves=Markup("").join(CURVE.format(line) for line in lines), marks=marks,
    )  # fmt: skip


def draw_marks(steps: Sequence[float], end: int) -> Markup:
    """Return vertical lines at these steps, for drawings over steps 0 to `end`."""
    return Markup("").join(MARK.format(round(at * WIDTH / max(end, 1)), HEIGHT) for at in steps)


def thin(steps: Array, values: Array) -> Series:
    """Return at most `POINTS` points of a curve, by averaging neighbouring points."""
    if len(steps) <= POINTS:
        return steps, values
    starts = np.linspace(0, len(steps), POINTS + 1).astype(int)
    counts = np.diff(starts)
    return np.add.reduceat(steps, starts[:-1]) / counts, np.add.reduceat(values, starts[:-1]) / counts


def _points(x: Array, y: Array) -> str:
    if len(x) == 1:
        x, y = np.array([x[0] - 4, x[0] + 4]), np.array([y[0], y[0]])  # a line with one point would be invisible
    return " ".join(map(str, np.rint(np.column_stack([x, y])).astype(int).ravel().tolist()))
