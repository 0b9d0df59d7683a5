"""The figure of a measure: what it draws, and what it says."""

import numpy as np
import pytest

from supple.reports.figures.measures import plot_measures
from supple.reports.figures.style import Plot
from supple.reports.tables.differences import Measure


def measure(name: str = "mean return", percent: bool = False, place: str = "", **arms: list[float]) -> Measure:
    return Measure(name, {arm: dict(enumerate(values)) for arm, values in arms.items()}, percent, place=place)


def dots(plot: Plot) -> list[list[float]]:
    """The horizontal places of the marks of the first panel, one list for each set of marks."""
    return [np.round(each.get_offsets()[:, 0], 6).tolist() for each in plot.figure.axes[0].collections]  # type: ignore[index, call-overload]


def test_every_arm_has_a_mark_at_its_mean_and_a_dot_for_each_seed() -> None:
    plot = plot_measures([measure(none=[1.0, 2.0, 3.0], fire=[5.0, 6.0, 10.0])])
    assert plot is not None
    assert dots(plot) == [[1, 2, 3], [2], [5, 6, 10], [7]]
    assert "large dots: their means" in plot.caption
    assert "Student" not in plot.caption


def test_an_interval_is_drawn_from_five_seeds_on() -> None:
    plot = plot_measures([measure(none=[1.0, 2.0, 3.0, 4.0, 5.0], fire=[5.0] * 5, snp=[1.0, 2.0, np.nan])])
    assert plot is not None
    assert "bars: 95 % Student-t interval" in plot.caption
    (none, baseline) = plot.figure.axes[0].get_lines()  # equal seeds have none
    low, high = np.asarray(none.get_xdata(), dtype=float)
    assert low < 2 < 4 < high
    assert set(np.asarray(baseline.get_xdata(), dtype=float)) == {3.0}
    assert [text.get_text() for text in plot.figure.axes[0].texts][1:] == ["5", "1.5 [−4.9, 7.9] (2 of 3 seeds)"]


def test_lower_is_better_for_losses_and_shares_are_in_percent() -> None:
    loss = plot_measures([measure("final val loss", none=[3.0, 3.0], fire=[2.0, 2.0])])
    share = plot_measures([measure("accuracy", True, none=[0.5, 0.7], fire=[0.8, 0.8])])
    assert loss is not None
    assert share is not None
    assert "Lower is better." in loss.caption
    assert "Lower" not in share.caption
    assert share.title == "Accuracy (%)"
    assert dots(share)[1] == [60]


def test_environments_have_a_panel_each() -> None:
    plot = plot_measures([measure(place=place, none=[1.0], fire=[2.0]) for place in "AB"])
    assert plot is not None
    assert [axes.get_title("left") for axes in plot.figure.axes] == ["A", "B"]


def test_each_panel_has_the_line_of_its_own_baseline() -> None:
    plot = plot_measures([measure(place=f"{x}", **{f"none + tau={x}": [x], "fire": [9.0]}) for x in (1.0, 2.0)])
    assert plot is not None
    lines = [axes.get_lines()[-1].get_xdata() for axes in plot.figure.axes]
    assert [set(np.asarray(line, dtype=float)) for line in lines] == [{1.0}, {2.0}]
    assert plot.caption.endswith("the mean of none + tau=1.0 or none + tau=2.0.")


@pytest.mark.parametrize("arms", [{}, {"none": [1.0]}, {"none": [np.nan], "fire": [np.nan]}])
def test_there_is_no_figure_if_there_is_nothing_to_compare(arms: dict[str, list[float]]) -> None:
    assert plot_measures([measure(**arms)] if arms else []) is None
