"""The network of DQN: an MLP, behind convolutions if observations are images; and the sizes of what it reads.

It is a single network, or a stack of several: all tensors have the members as their first axis then.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from supple.agents.encoders import Convolutions, make_encoder
from supple.agents.initialization import Initialization, draw_, hidden_layer
from supple.agents.offpolicy.replay import ReplayLayout
from supple.envs import Picture
from supple.interventions import Layer, Units, chain
from supple.networks import Normalization, hidden_linear

from .settings import USUAL


class Sizes(NamedTuple):
    """What the replay memory keeps of a step, with the number of actions, and how an image lies in an observation."""

    layout: ReplayLayout
    picture: Picture | None = None

    def __str__(self) -> str:
        seen = f"vectors of {self.size} numbers"
        if self.layout.stack is not None:
            height, width = self.layout.frame
            seen = f"stacks of {self.layout.stack} frames of {height} × {width} pixels"
        elif self.picture:
            seen = str(self.picture)
        return f"{seen} and {self.layout.actions} actions"

    @property
    def size(self) -> int:
        """The numbers of an observation."""
        return math.prod(self.layout.observation)

    def split(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Return s and s′ from the frames of a sample, (…, n, stack, H, W) or (…, n, size) each."""
        if self.layout.stack is None:
            s, after = frames.unbind(-2)
            return s, after
        return frames[..., : self.layout.stack, :, :], frames[..., -self.layout.stack :, :, :]


class ValueNetwork(nn.Module):
    """A network that returns action values, or with another head than `mse` the outputs for them (see `value_heads`).

        vectors (n, size) → encoder: a hidden layer         → mlp: the other hidden layers, linear → (n, outputs)
        images (n, size)  → encoder: convolutions, flatten  → mlp: hidden layers, linear → (n, outputs)

    Plasticity injection duplicates `mlp`. Normalisation applies to linear hidden layers, not to convolutions (one layer
    was enough for Gogianu et al. 2021, arXiv 2105.05246).
    """

    def __init__(
        self,
        size: int,
        outputs: int,
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
            outputs: Number of outputs: one for each action, or for each action and number of its `ValueHead`.
            widths: Widths of the linear hidden layers. None: 256 and 256, or those usual behind the encoder.
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
        draw = partial(draw_, initialization=initialization, generator=generator)
        self.axis = 2 if members else 1  # of an observation's numbers
        first = make_encoder(picture, size, encoder, units, draw, generator)
        if first is not None:
            size = first.features
        if isinstance(first, Convolutions):
            widths = widths or first.design.hidden
        hidden: list[list[nn.Module]] = []
        for width in widths or USUAL:
            hidden.append(hidden_layer(size, width, units, normalization, draw))
            size = units.features(width)
        head = draw(hidden_linear(size, outputs, members=members))
        self.encoder = first or nn.Sequential(*hidden.pop(0))
        behind = [head, nn.Softmax(-1)] if softmax else [head]
        self.mlp = nn.Sequential(*(part for parts in hidden for part in parts), *behind)

    def forward(self, observations: Tensor) -> Tensor:
        """Return the outputs, (n, outputs), for observations of any type: (n, size), or stacked frames."""
        if isinstance(self.encoder, nn.Sequential) and not isinstance(self.encoder, Convolutions):
            return self.mlp(self.encoder(observations.float()))
        return self.mlp(self.encoder(observations.flatten(self.axis)))

    def layers(self) -> tuple[Layer, ...]:
        """Return the convolutions or the first linear layer (encoder), the others (hidden) and the last (head)."""
        return tuple(
            replace(layer, role="encoder") if layer.name.startswith("encoder.") else layer for layer in chain(self)
        )
