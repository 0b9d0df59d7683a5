"""The figure of the generalization gap: training returns minus returns with held-out friction."""

import numpy as np

from supple.experiments.history.data import ComparisonData
from supple.reports.figures.heat_maps import HeatMap, draw_heat_maps, seeds_text
from supple.reports.figures.style import Plot
from supple.reports.tables.cells import Form

from .scores import AgentScores
from .tables import short_name


def plot_gaps(data: ComparisonData, scores: AgentScores) -> Plot | None:
    """Plot training minus held-out return: one panel per arm, one column per environment, its tasks as rows."""
    gaps = {label: arm.mean_gaps for label, arm in scores.arms.items()}
    sizes = np.abs(np.stack(list(gaps.values())))
    if not np.isfinite(sizes).any():
        return None
    # Environments differ in scale by orders of magnitude, so each column is coloured by its own largest gap.
    largest = np.max(sizes, axis=(0, 1), where=np.isfinite(sizes), initial=0.0)
    count = len(scores.environments)
    names = list(map(short_name, scores.environments))
    rows = [
        f"{1 + count * cycle}" + (f" to {count * (cycle + 1)}" if count > 1 else "") for cycle in range(scores.cycles)
    ]
    panels = [
        HeatMap(label, names, rows, gap, np.divide(gap, largest, out=0 * gap, where=largest > 0))
        for label, gap in gaps.items()
    ]
    caption = (
        f"Training return minus return with held-out friction at the end of each task, in units of return "
        f"({seeds_text(data.seeds)}; failed runs count as 0; white: not measured). Colour is relative to each "
        "environment's largest gap. Training returns are from the exploring policy and test returns from the greedy "
        "one, so a gap below 0 is possible."
    )
    figure = draw_heat_maps(panels, Form(decimals=0), "", "tasks", "PuOr_r", (-1.25, 1.25))
    return Plot("generalization_gap", "Generalization gap", caption, figure)
