"""Initialisation that several agents share."""

from typing import TypeVar

from torch import Generator, nn

Drawn = TypeVar("Drawn", bound=nn.Linear | nn.Conv2d)


def uniform_(layer: Drawn, generator: Generator) -> Drawn:
    """Draw weights and bias from U(−1/√d, 1/√d) for d inputs per unit, as PyTorch does by default."""
    bound = layer.weight[0].numel() ** -0.5
    assert layer.bias is not None
    for parameter in (layer.weight, layer.bias):
        nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return layer
