"""The figure of the generalization gap: training returns minus returns with held-out friction."""

import numpy as np
from matplotlib.colors import TwoSlopeNorm

from supple.experiments.history.data import ComparisonData
from supple.reports.figures.style import INK, WIDTH, Plot, arm_styles, new_panels
from supple.reports.tables.cells import MISSING, with_minus

from .scores import AgentScores
from .tables import short_name


def plot_gaps(data: ComparisonData, scores: AgentScores) -> Plot | None:
    """Plot training minus held-out return: one panel per arm, one column per environment, its tasks as rows."""
    gaps = {label: arm.mean_gaps for label, arm in scores.arms.items()}
    everything = np.abs(np.stack(list(gaps.values())))
    if not np.isfinite(everything).any():
        return None
    # Environments differ in scale by orders of magnitude, so each column is coloured by its own largest gap.
    largest = np.nanmax(np.where(np.isfinite(everything), everything, 0.0), axis=(0, 1))
    cycles, envs = everything.shape[1:]
    columns = max(1, min(len(gaps), 8 // envs if envs > 2 else 4))
    width = min(WIDTH, 1.0 + columns * (0.8 + 1.05 * envs))
    figure, grid = new_panels(len(gaps), 0.3, 0.75 + 0.42 * cycles, width, columns, sharex=True, sharey=True)
    for (label, gap), axes in zip(gaps.items(), grid, strict=True):
        shares = np.divide(gap, largest, out=np.zeros_like(gap), where=largest > 0)
        shares = np.where(np.isfinite(gap), shares, np.nan)
        axes.imshow(shares, cmap="PuOr_r", norm=TwoSlopeNorm(0, -1.25, 1.25), aspect="auto")
        for (cycle, env), value in np.ndenumerate(gap):
            text = with_minus(f"{value:+,.0f}") if np.isfinite(value) else MISSING
            if value == 0:
                text = "0"
            dark = np.isfinite(value) and abs(shares[cycle, env]) > 0.85
            axes.text(env, cycle, text, ha="center", va="center", fontsize=9, color="white" if dark else INK)
        axes.set_title(
            label, loc="left", fontsize=10.5, fontweight="bold", color=arm_styles(list(gaps))[label]["color"]
        )
        axes.set_xticks(range(envs), [short_name(env) for env in scores.environments], fontsize=8.5)
        axes.set_yticks(range(cycles), [_tasks(c, envs) for c in range(cycles)], fontsize=8.5)
        axes.tick_params(length=0, labelbottom=True)
        axes.spines[:].set_visible(False)
    over = f"mean over {data.seeds} seeds" if data.seeds > 1 else "1 seed"
    caption = (
        f"Training return minus return with held-out friction at the end of each task, in units of return ({over}; "
        "failed runs count as 0; – was not measured). Colour is relative to each environment's largest gap. Training "
        "returns are from the exploring policy and test returns from the greedy one, so a gap below 0 is possible."
    )
    return Plot("generalization_gap", "Generalization gap", caption, figure)


def _tasks(cycle: int, environments: int) -> str:
    """Return the numbers of the tasks in one pass through the environments, as text."""
    first = 1 + cycle * environments
    return f"task {first}" if environments == 1 else f"tasks {first} to {first + environments - 1}"
