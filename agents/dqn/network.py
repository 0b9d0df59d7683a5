"""The network of DQN: an MLP, behind convolutions if observations are images.

It is a single network, or a stack of several: all tensors have the members as their first axis then.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from ...envs import Picture
from ...interventions import Layer, StackedConv2d, StackedLinear, Units, chain
from ...networks import Normalization, hidden_linear, hidden_norm, unit_names
from ..encoders import Convolutions
from ..initialization import uniform_

Initialization = Literal["xavier", "pytorch"]

Drawn = nn.Conv2d | nn.Linear | StackedConv2d | StackedLinear


def draw_(layer: Drawn, initialization: Initialization, generator: torch.Generator | None) -> nn.Module:
    """Initialise a layer in place and return it; without a generator, as for stacks, only return it.

    `xavier`: Xavier-uniform weights and zero biases, as in FIRE's and Dopamine's DQN. `pytorch`: both from
    U(±1/√inputs), PyTorch's default, as in Stable-Baselines3's and CleanRL's DQN."""
    if generator is None or isinstance(layer, StackedConv2d | StackedLinear):
        return layer
    if initialization == "pytorch":
        return uniform_(layer, generator)
    assert layer.bias is not None
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def hidden_layer(
    d_in: int,
    width: int,
    units: Units,
    normalization: Normalization,
    initialization: Initialization,
    generator: torch.Generator | None,
) -> list[nn.Module]:
    """Return a hidden layer, (n, d_in) → (n, units.features(width)): linear, normalisation if any, activation.

    Args:
        d_in: Number of inputs.
        width: Number of units.
        units: The activation of the network, which also says how many networks the stack has.
        normalization: The normalisation of the layer (see `networks.normalization`).
        initialization: The distribution of the initial weights (see `draw_`).
        generator: Draws the initial weights. None for a stack.
    """
    outputs, members = units.preactivations(width), units.members
    linear = hidden_linear(d_in, outputs, normalization, members)
    return [draw_(linear, initialization, generator), *hidden_norm(outputs, normalization, members), units(width)]


def head_layer(
    d_in: int, actions: int, members: int, initialization: Initialization, generator: torch.Generator | None
) -> nn.Module:
    """Return the layer of the action values, (n, d_in) → (n, actions) (see `hidden_layer`)."""
    linear = StackedLinear(members, d_in, actions) if members else nn.Linear(d_in, actions)
    return draw_(linear, initialization, generator)


class ValueNetwork(nn.Module):
    """A network that returns action values.

        vectors (n, size) → encoder: a hidden layer         → mlp: the other hidden layers, linear → (n, actions)
        images (n, size)  → encoder: convolutions, flatten  → mlp: hidden layers, linear → (n, actions)

    Plasticity injection duplicates `mlp`. Normalisation applies to linear hidden layers, not to convolutions (one layer
    was enough for Gogianu et al. 2021, arXiv 2105.05246).
    """

    def __init__(
        self,
        size: int,
        actions: int,
        widths: Sequence[int] | None,
        activation: str,
        generator: torch.Generator | None,
        normalization: Normalization = "none",
        initialization: Initialization = "xavier",
        softmax: bool = False,
        members: int = 0,
        picture: Picture | None = None,
        encoder: str = "auto",
    ) -> None:
        """Draw a new network, or make a stack of them for `stack_networks`.

        Args:
            size: Numbers of an observation.
            actions: Number of actions.
            widths: Widths of the linear hidden layers, at least one. None: those usual behind the encoder of images.
            activation: Name of the activation, with optional parameters.
            generator: Draws the initial weights. None for a stack.
            normalization: The normalisation of the linear hidden layers (see `networks.normalization`).
            initialization: The distribution of the initial weights (see `draw_`).
            softmax: Apply a softmax over the actions to the action values.
            members: Number of networks in the stack; 0 if there is no stack.
            picture: How an image lies in an observation, or None if observations are vectors.
            encoder: The convolutions that read images (see `encoders.parse_encoder`).

        Raises:
            ValueError: The encoder is unknown, or the images are too small for it.
        """
        super().__init__()
        units = Units(activation, members)
        convolutions, self.axis = None, 2 if members else 1  # of an observation's numbers
        if picture is not None:
            draw = partial(draw_, initialization=initialization, generator=generator)
            convolutions = Convolutions(picture, size, encoder, units, draw)
            size, widths = convolutions.features, widths or convolutions.design.hidden
        hidden: list[list[nn.Module]] = []
        for width in widths or ():
            hidden.append(hidden_layer(size, width, units, normalization, initialization, generator))
            size = units.features(width)
        head = head_layer(size, actions, members, initialization, generator)
        self.encoder = nn.Sequential(*hidden.pop(0)) if convolutions is None else convolutions
        behind = [head, nn.Softmax(-1)] if softmax else [head]
        self.mlp = nn.Sequential(*(part for parts in hidden for part in parts), *behind)

    def forward(self, observations: Tensor) -> Tensor:
        """Return the action values, (n, actions), of observations of any type: (n, size), or stacked frames."""
        if isinstance(self.encoder, Convolutions):
            return self.mlp(self.encoder(observations.flatten(self.axis)))
        return self.mlp(self.encoder(observations.float()))

    def layers(self) -> tuple[Layer, ...]:
        """Return the convolutions or the first linear layer (encoder), the others (hidden) and the last (head)."""
        return tuple(
            replace(layer, role="encoder") if layer.name.startswith("encoder.") else layer for layer in chain(self)
        )

    def units(self) -> tuple[str, ...]:
        """Return the names of the activation modules. The outputs of the last are called features."""
        return unit_names(self)
