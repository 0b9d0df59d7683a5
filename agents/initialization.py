"""Layers of which several agents build their networks, and their initial values."""

from collections.abc import Callable
from typing import Literal, TypeVar

from torch import Generator, nn

from supple.interventions import StackedConv2d, StackedLinear, Units
from supple.networks import Normalization, hidden_linear, hidden_norm

Initialization = Literal["orthogonal", "xavier", "pytorch"]
Drawn = TypeVar("Drawn", bound=nn.Linear | StackedLinear | nn.Conv2d | StackedConv2d)


def draw_(layer: Drawn, initialization: Initialization, generator: Generator | None, gain: float = 2**0.5) -> Drawn:
    """Initialise a layer in place and return it; without a generator, as for stacks, only return it.

    `orthogonal`: orthogonal weights times `gain` and zero biases, as in CleanRL's and Stable-Baselines3's PPO.
    `xavier`: Xavier-uniform weights and zero biases, as in FIRE's and Dopamine's DQN. `pytorch`: both from
    U(±1/√inputs), PyTorch's default, as in Stable-Baselines3's and CleanRL's DQN."""
    if generator is None or isinstance(layer, StackedLinear | StackedConv2d):
        return layer
    assert layer.bias is not None
    if initialization == "pytorch":
        bound = layer.weight[0].numel() ** -0.5
        for parameter in (layer.weight, layer.bias):
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
        return layer
    if initialization == "orthogonal":
        nn.init.orthogonal_(layer.weight, gain, generator=generator)
    else:
        nn.init.xavier_uniform_(layer.weight, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def hidden_layer(
    d_in: int,
    width: int,
    units: Units,
    normalization: Normalization,
    draw: Callable[[nn.Linear | StackedLinear], nn.Module],
) -> list[nn.Module]:
    """Return a hidden layer, (n, d_in) → (n, units.features(width)): linear, normalisation if any, activation."""
    outputs, members = units.preactivations(width), units.members
    linear = draw(hidden_linear(d_in, outputs, normalization, members))
    return [linear, *hidden_norm(outputs, normalization, members), units(width)]
