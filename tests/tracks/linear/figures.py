"""The numbers and drawings of the figures, made once, in fewer and longer steps where claims stay as they are."""

import json
from functools import cache
from importlib import import_module
from typing import Any

from matplotlib.figure import Figure

SMALL: dict[str, dict[str, Any]] = {
    "fig1": {"learning_rate": 1e-3},
    "fig2": {"learning_rate": 1e-3},
    "fig3": {"learning_rate": 1e-3},
    "fig4": {"learning_rate": 0.02, "draws": 1500},
    "fig5": {"learning_rate": 0.05, "end": 400.0, "points": 40},
    "fig11": {"learning_rate": 0.04},
    "fig12": {"draws": 1},
    "fig13": {},
    "fig14": {"learning_rate": 0.01},
}


@cache
def numbers(name: str, seed: int = 0) -> dict[str, Any]:
    """A figure's numbers as its JSON file has them: strict JSON, without NaN."""
    made = import_module(f"supple.tracks.linear.figures.{name}").numbers(seed, **SMALL[name])
    return json.loads(json.dumps(made, allow_nan=False))


@cache
def drawn(name: str) -> Figure:
    """The figure, drawn from the numbers of its file alone."""
    return import_module(f"supple.tracks.linear.figures.{name}").draw(numbers(name))
