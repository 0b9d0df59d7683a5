"""How seeds and their means are drawn."""

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection

from supple.reports.figures.style import FAINT, MOST_BANDS, draw_band, draw_panels, new_figure, seeds_phrase

STEPS = np.arange(4.0)
STYLE = {"color": "black"}


def panel(values: np.ndarray) -> Axes:
    axes = new_figure(2.0).subplots()
    draw_band(axes, STEPS, values, STYLE)
    return axes


@pytest.mark.parametrize("seeds", [2, 4])
def test_up_to_four_seeds_are_lines_below_a_stronger_mean(seeds: int) -> None:
    axes = panel(np.random.default_rng(0).uniform(0, 9, (seeds, 4)))
    (lines,) = axes.collections
    assert isinstance(lines, LineCollection)
    assert len(lines.get_segments()) == seeds
    (mean,) = axes.get_lines()
    assert mean.get_linewidth() > 2 * lines.get_linewidths()[0]
    assert f"the {seeds} seeds" in seeds_phrase(seeds)


def band(axes: Axes) -> np.ndarray:
    (found,) = axes.collections
    assert isinstance(found, PolyCollection)
    return np.asarray(found.get_paths()[0].vertices)


def test_a_band_does_not_set_the_limits_of_its_panel() -> None:
    values = np.array([[-5.0, 5, -5, 5]] * 2 + [[5.0, -5, 5, -5]] * 3)
    axes = panel(values)
    assert band(axes)[:, 1].max() > 6
    axes.autoscale_view()
    assert axes.get_ylim()[1] < 6


@pytest.mark.parametrize("arms", [MOST_BANDS, MOST_BANDS + 1])
def test_seeds_are_drawn_where_the_caption_says_so_though_a_trunk_is_in_the_panel(arms: int) -> None:
    seeds = [(STEPS, STEPS), (STEPS, 2 * STEPS)]
    colours = [FAINT, *(f"C{i}" for i in range(arms))]
    _, (axes,) = draw_panels({"": [({"color": colour}, seeds) for colour in colours]}, "steps", 2.0)
    assert bool(axes.collections) == ("2 seeds; thick" in seeds_phrase(2, arms))
