"""Figures of deep linear networks: theory and simulation agree, and are drawn from their JSON alone."""

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from supple.tracks.linear.figures import drawing
from tests.tracks.linear.figures import drawn, numbers

pytestmark = pytest.mark.slow

PANELS = {
    "fig1": (3 + 3 + 2 + 1, "ABC"), "fig2": (15, "ABC"), "fig3": (3, "ABC"), "fig4": (6 + 2 * 7 + 2, "ABCDE"),
    "fig5": (3 + 1 + 3 + 1, "ABC"), "fig11": (2, "A"), "fig12": (3, "ABC"), "fig13": (3, "ABC"), "fig14": (12, "ABC"),
}  # fmt: skip
FARTHEST = {"fig11": 0.03, "fig12": 0.03, "fig13": 0.005}  # else 0.02


@pytest.mark.parametrize("name", PANELS)
def test_theory_lies_on_gradient_descent_and_on_the_flow(name: str) -> None:
    assert 0 < numbers(name)["difference"] < FARTHEST.get(name, 0.02)
    assert numbers(name).get("difference_flow", 0) < 1e-6


@pytest.mark.parametrize("name", ["fig1", "fig3"])
def test_the_reported_difference_is_that_of_the_curves(name: str) -> None:
    simulated, theory = (np.array(numbers(name)[which]) for which in ("simulated", "theory"))
    worst = max(np.abs(a - b).max() / np.abs(b).max() for a, b in zip(simulated, theory, strict=True))
    assert worst <= numbers(name)["difference"] * 1.01 + 1e-5


@pytest.mark.parametrize("name", ["fig3", "fig11", "fig13"])
def test_numbers_depend_on_the_seed_alone(name: str) -> None:
    assert numbers.__wrapped__(name) == numbers(name)
    assert numbers.__wrapped__(name, seed=1) != numbers(name)


def texts(figure: Figure) -> str:
    return " ".join(text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text")))


def dotted_and_coloured(axes: Axes) -> tuple[list[Any], list[Any]]:
    curves = [line for line in axes.lines if len(line.get_xdata()) > 2]
    dotted = [line for line in curves if line.get_color() == drawing.THEORY["color"]]
    return dotted, [line for line in curves if line not in dotted]


@pytest.mark.parametrize("name", PANELS)
def test_a_figure_has_its_panels_and_letters(name: str) -> None:
    figure, (panels, letters) = drawn(name), PANELS[name]
    assert len(figure.axes) == panels
    assert all(rf"$\bf{{{letter}}}$" in texts(figure) for letter in letters)
    assert "theory" in texts(figure)
    figure.canvas.draw()  # text and layout that cannot be drawn fail here


@pytest.mark.parametrize(("name", "panels"), [("fig1", 3), ("fig2", 15), ("fig3", 3), ("fig4", 2), ("fig5", 4)])
def test_every_simulated_curve_has_one_of_the_theory(name: str, panels: int) -> None:
    pairs = [dotted_and_coloured(axes) for axes in drawn(name).axes]
    pairs = [pair for pair in pairs if pair[0]]
    assert len(pairs) == panels
    assert all(len(dotted) == len(coloured) for dotted, coloured in pairs)


def test_drawn_curves_have_the_computed_values() -> None:
    fig, figure = numbers("fig3"), drawn("fig3")
    for i, axes in enumerate(figure.axes):
        dotted, coloured = dotted_and_coloured(axes)
        np.testing.assert_array_equal([line.get_ydata() for line in coloured], np.transpose(fig["simulated"][i]))
        np.testing.assert_array_equal([line.get_ydata() for line in dotted], np.transpose(fig["theory"][i]))
        np.testing.assert_array_equal(coloured[0].get_xdata(), fig["times"])


def test_maps_show_the_numbers_white_at_zero() -> None:
    fig, figure = numbers("fig4"), drawn("fig4")
    images = [axes.images[0] for axes in figure.axes if axes.images]
    assert all(image.norm.vmin == -image.norm.vmax for image in images)
    shown = [np.asarray(image.get_array()) for image in images]
    for matrix in (*fig["simulated"]["rsm_input"], *fig["theory"]["w2w2t"], fig["large"]["w2w2t"]):
        assert any(np.array_equal(matrix, each) for each in shown)


def test_lambda_has_one_colour_everywhere_and_signs_differ() -> None:
    low, zero, high = (drawing.lambda_colour(lam) for lam in (-2.0, 0.0, 2.0))
    assert len({low, zero, high}) == 3
    assert drawing.lambda_colour(-9.0, most=9.0) == low == drawing.lambda_colour(-5.0)
    assert drawing.lambda_title(-2.0) == "λ = −2"
