"""Heat maps of arms: what is written above them."""

import numpy as np
import pytest

from supple.reports.figures.heat_maps import HeatMap, draw_heat_maps
from supple.reports.tables.cells import PLAIN


@pytest.mark.slow
def test_titles_of_narrow_heat_maps_tell_arms_apart_and_do_not_overlap() -> None:
    titles = [f"learning_rate={rate} · {arm}" for rate in (0.001, 0.01) for arm in ("none", "fire@0.5")]
    titles += [f"{'a' * 60}{i}" for i in range(8)]
    figure = draw_heat_maps([HeatMap(title, ["hopper"], ["1"], np.zeros((1, 1))) for title in titles], PLAIN)
    assert [axes.get_title("left") for axes in figure.axes][:4] == titles[:4]
    figure.draw_without_rendering()
    boxes = [axes._left_title.get_window_extent() for axes in figure.axes]  # type: ignore[attr-defined]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
