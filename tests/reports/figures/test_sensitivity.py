"""Which figures of a score against a number there are, and what is in them; performance profiles."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from supple.reports.figures.profiles import profiles
from supple.reports.figures.sensitivity import sensitivity
from supple.reports.figures.style import BASELINE, PALETTE, Plot
from supple.reports.tables.differences import Measure

STRENGTHS = ["l2_init(strength=0.0001)", "l2_init(strength=0.001)", "l2_init(strength=0.01)"]
Points = Sequence[tuple[str, Mapping[str, Any]]]


def measure(points: Points, seeds: int = 3, place: str = "") -> Measure:
    """Arms whose scores are their places in the list, and a little more with every seed."""
    named = {f"{arm} {variant}" if variant else arm: (arm, variant) for arm, variant in points}
    by_seed = {name: {seed: i + seed / 10 for seed in range(seeds)} for i, name in enumerate(named)}
    return Measure("final return", by_seed, points=named, place=place)


def lines(plot: Plot) -> list[tuple[list[float], list[float]]]:
    """The lines that have a mark at every point."""
    return [
        (np.asarray(line.get_xdata(), dtype=float).tolist(), np.round(line.get_ydata(), 6).tolist())  # type: ignore[call-overload]
        for axes in plot.figure.axes
        for line in axes.get_lines()
        if line.get_marker() == "o"
    ]


def test_a_number_in_hooks_is_a_line_on_a_logarithmic_axis_with_none_as_a_level() -> None:
    (plot,) = sensitivity([measure([("none", {}), *((arm, {}) for arm in STRENGTHS)])])
    assert plot.name == "sensitivity_strength"
    assert lines(plot) == [([1e-4, 1e-3, 1e-2], [1.1, 2.1, 3.1])]
    (axes,) = plot.figure.axes
    assert axes.get_xscale() == "log"
    assert "bars" in plot.caption
    assert any(set(np.round(line.get_ydata(), 6)) == {0.1} for line in axes.get_lines())  # type: ignore[call-overload]


def test_a_varied_setting_has_a_line_per_arm_and_a_panel_per_value_of_other_settings() -> None:
    variants = [{"width": width, "activation": name} for name in ("relu", "tanh") for width in (64, 96)]
    (plot,) = sensitivity([measure([(arm, variant) for variant in variants for arm in ("none", "fire@task")])])
    assert [axes.get_title("left") for axes in plot.figure.axes] == ["activation relu", "activation tanh"]
    assert [x for x, _ in lines(plot)] == 4 * [[64.0, 96.0]]
    assert plot.figure.axes[0].get_xscale() == "linear"


def test_an_axis_with_0_is_symmetric_logarithmic() -> None:
    (plot,) = sensitivity([measure([(f"l2(strength={value})", {}) for value in ("0.0", "1e-3", "1e-1")])])
    assert plot.figure.axes[0].get_xscale() == "symlog"


def test_points_drawn_at_random_have_a_panel_for_each_environment() -> None:
    drawn = [{"width": 2**i, "batch": 3 * i % 5} for i in range(5)]
    measures = [measure([("none", variant)], place=place) for place in ("Hopper", "Ant") for variant in drawn]
    plot = next(plot for plot in sensitivity(measures) if plot.name == "sensitivity_width")
    assert [axes.get_title("left") for axes in plot.figure.axes] == ["Hopper", "Ant"]
    assert [x for x, _ in lines(plot)] == 2 * [[1.0, 2.0, 4.0, 8.0, 16.0]]


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ((0.1, 0.3, 1.0), "log"), ((1e-4, 1e-3), "log"), ((64, 128, 256), "linear"), ((1, 2, 3, 4), "linear"),
    ],
)  # fmt: skip
def test_values_over_a_decade_have_a_logarithmic_scale(values: tuple[float, ...], scale: str) -> None:
    (plot,) = sensitivity([measure([("none", {"learning_rate": value}) for value in values])])
    assert plot.figure.axes[0].get_xscale() == scale


def test_seeds_are_dots_in_the_colour_of_their_arm_beside_those_of_other_arms() -> None:
    points = [(arm, {"width": width}) for arm in ("none", "fire@task") for width in (64, 96)]
    (plot,) = sensitivity([measure(points, seeds=3)])
    (axes,) = plot.figure.axes
    assert [len(each.get_offsets()) for each in axes.collections] == 4 * [3]
    colours = [tuple(each.get_facecolor()[0][:3]) for each in axes.collections]
    assert colours[:2] == 2 * [to_rgb(BASELINE)]
    assert colours[2:] == 2 * [to_rgb(PALETTE[0])]
    left, right = (axes.collections[i].get_offset_transform().transform((64, 0))[0] for i in (0, 2))
    assert left < axes.transData.transform((64, 0))[0] < right


def test_an_arm_with_two_numbers_drawn_at_random_has_one_colour() -> None:
    arms = [(f"l2(strength={10.0**-i}) + learning_rate=0.{i + 1}", {}) for i in range(5)]
    plots = sensitivity([measure(arms)])
    assert [plot.name for plot in plots] == ["sensitivity_strength", "sensitivity_learning_rate"]
    assert [text.get_text() for text in plots[0].figure.legends[0].texts] == ["l2(strength=…) + learning_rate=…"]


def test_points_whose_other_settings_differ_are_not_joined() -> None:
    drawn = [("none", {"learning_rate": 0.1 * 3**i, "width": 10 + i}) for i in range(5)]
    plots = sensitivity([measure(drawn)])
    assert [plot.name for plot in plots] == ["sensitivity_learning_rate", "sensitivity_width"]
    assert "not joined" in plots[0].caption
    assert plots[0].figure.axes[0].get_lines()[0].get_linestyle() == "None"


@pytest.mark.parametrize("arms", [["none", "fire@task"], ["redo(tau=0.1)@every:1000", "fire(steps=5)"]])
def test_there_is_no_figure_if_no_number_varies(arms: list[str]) -> None:
    assert sensitivity([measure([(arm, {}) for arm in arms])]) == []


def test_profiles_need_ten_scores_per_arm_and_are_higher_for_the_better_arm() -> None:
    assert profiles([measure([("none", {}), ("fire@task", {})], seeds=9)]) is None
    plot = profiles([measure([("none", {}), ("fire@task", {})], seeds=10)])
    assert plot is not None
    shares = [np.asarray(line.get_ydata(), dtype=float) for line in plot.figure.axes[0].get_lines()]
    assert [(share[0], share[-1]) for share in shares] == [(1.0, 0.0), (1.0, 0.0)]
    assert (shares[1] >= shares[0]).all()  # every run of the second arm scores higher
