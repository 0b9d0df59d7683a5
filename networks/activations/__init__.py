"""Activation functions by name, the layer widths that they need, and their properties.

The leaky family is the subject of "Activation Function Design Sustains Plasticity in Continual Learning" (Lillo &
Cheney 2025, arXiv:2509.22562): a derivative that stays away from zero on the negative side keeps units trainable. Each
factory states its derivative floor, inf |f′(x)| over all x (the paper's footnote 2). A floor of 0 means that some
inputs or the far tails pass no gradient. `properties` computes it and the rest of the paper's Table A1. The
intervention `swap` exchanges the activation during training.

No forward pass synchronises with the host, and each compiles into one graph. Bad parameters raise ValueError.
"""

from . import exponential, leaky, rational, smooth, widths  # noqa: F401 - they fill the table
from .base import Activation, RandomActivation, activations
from .by_name import Units, activation, is_random, parse_activation, set_generators
from .properties import Properties, properties
from .slopes import SATURATED, derivative, initial_gain

__all__ = [
    "SATURATED",
    "Activation",
    "Properties",
    "RandomActivation",
    "Units",
    "activation",
    "activations",
    "derivative",
    "initial_gain",
    "is_random",
    "parse_activation",
    "properties",
    "set_generators",
]
