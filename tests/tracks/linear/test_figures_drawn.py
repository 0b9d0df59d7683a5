"""Figures of deep linear networks are drawn from their JSON alone, every curve with the theory over it."""

import importlib
import json
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from supple.tracks.linear.figures import drawing

pytestmark = pytest.mark.slow

SMALL: dict[str, dict[str, Any]] = {
    "fig1": {"learning_rate": 0.01, "end": 20.0},
    "fig2": {"learning_rate": 0.01, "end": 20.0},
    "fig3": {"learning_rate": 0.01},
    "fig4": {"learning_rate": 0.05, "end": 20.0, "draws": 20},
    "fig5": {"learning_rate": 0.05, "end": 10.0, "points": 8},
}
PANELS = {"fig1": 3 + 3 + 2 + 1, "fig2": 15, "fig3": 3, "fig4": 6 + 2 * 7 + 2, "fig5": 3 + 1 + 3 + 1}
LETTERS = {"fig1": "ABC", "fig2": "ABC", "fig3": "ABC", "fig4": "ABCDE", "fig5": "ABC"}


@pytest.fixture(scope="module")
def drawn() -> dict[str, tuple[dict[str, Any], Figure]]:
    """Numbers as a file holds them, and the figure."""
    figures = {}
    for name, settings in SMALL.items():
        module = importlib.import_module(f"supple.tracks.linear.figures.{name}")
        numbers = json.loads(json.dumps(module.numbers(0, **settings)))
        figures[name] = (numbers, module.draw(numbers))
    return figures


def texts(figure: Figure) -> str:
    return " ".join(text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text")))


def dotted_and_coloured(axes: Axes) -> tuple[list[Any], list[Any]]:
    curves = [line for line in axes.lines if len(line.get_xdata()) > 2]
    dotted = [line for line in curves if line.get_color() == drawing.THEORY["color"]]
    return dotted, [line for line in curves if line not in dotted]


@pytest.mark.parametrize("name", SMALL)
def test_a_figure_has_its_panels_and_letters(name: str, drawn: dict[str, Any]) -> None:
    figure = drawn[name][1]
    assert len(figure.axes) == PANELS[name]
    assert all(rf"$\bf{{{letter}}}$" in texts(figure) for letter in LETTERS[name])
    assert {"simulation", "theory"} <= set(texts(figure).split())


@pytest.mark.parametrize(("name", "panels"), [("fig1", 3), ("fig2", 15), ("fig3", 3), ("fig4", 2), ("fig5", 4)])
def test_every_simulated_curve_has_one_of_the_theory(name: str, panels: int, drawn: dict[str, Any]) -> None:
    pairs = [dotted_and_coloured(axes) for axes in drawn[name][1].axes]
    pairs = [pair for pair in pairs if pair[0]]
    assert len(pairs) == panels
    assert all(len(dotted) == len(coloured) for dotted, coloured in pairs)


def test_drawn_curves_have_the_computed_values(drawn: dict[str, Any]) -> None:
    numbers, figure = drawn["fig3"]
    for i, axes in enumerate(figure.axes):
        dotted, coloured = dotted_and_coloured(axes)
        np.testing.assert_array_equal([line.get_ydata() for line in coloured], np.transpose(numbers["simulated"][i]))
        np.testing.assert_array_equal([line.get_ydata() for line in dotted], np.transpose(numbers["theory"][i]))
        np.testing.assert_array_equal(coloured[0].get_xdata(), numbers["times"])


def test_maps_show_the_numbers_white_at_zero(drawn: dict[str, Any]) -> None:
    numbers, figure = drawn["fig4"]
    images = [axes.images[0] for axes in figure.axes if axes.images]
    assert all(image.norm.vmin == -image.norm.vmax for image in images)
    shown = [np.asarray(image.get_array()) for image in images]
    for matrix in (*numbers["simulated"]["rsm_input"], *numbers["theory"]["w2w2t"], numbers["large"]["w2w2t"]):
        assert any(np.array_equal(matrix, each) for each in shown)


def test_lambda_has_one_colour_everywhere_and_signs_differ() -> None:
    low, zero, high = (drawing.lambda_colour(lam) for lam in (-2.0, 0.0, 2.0))
    assert len({low, zero, high}) == 3
    assert drawing.lambda_colour(-9.0, most=9.0) == low == drawing.lambda_colour(-5.0)
    assert drawing.lambda_title(-2.0) == "λ = −2"
