"""The networks of DQN: the Nature CNN (Mnih et al. 2015) for images, an MLP for vectors.

Each is a single network, or a stack of several: all tensors have the members as their first axis then.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from ...interventions import Layer, StackedConv2d, StackedLinear, Units, chain
from ...networks import Normalization, hidden_linear, hidden_norm, unit_names
from ..initialization import uniform_

Initialization = Literal["xavier", "pytorch"]

# (channels out, kernel, stride) of each convolution; no padding ("VALID"). Dopamine's network pads ("SAME") and
# flattens 11·11·64 units instead of 7·7·64: FIRE's released code and most PyTorch ports do not.
CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))


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


class ValueMLP(nn.Module):
    """An MLP that returns the action values of vectors.

        vectors (n, size) → encoder: a hidden layer
                          → mlp: the other hidden layers, linear → (n, actions)

    Plasticity injection duplicates `mlp`.
    """

    def __init__(
        self,
        size: int,
        actions: int,
        widths: Sequence[int],
        activation: str,
        generator: torch.Generator | None,
        normalization: Normalization = "none",
        initialization: Initialization = "xavier",
        softmax: bool = False,
        members: int = 0,
    ) -> None:
        """Draw a new network, or make a stack of them for `stack_networks`.

        Args:
            size: Length of an observation.
            actions: Number of actions.
            widths: Widths of the hidden layers, at least one.
            activation: Name of the activation, with optional parameters.
            generator: Draws the initial weights. None for a stack.
            normalization: The normalisation of the hidden layers (see `networks.normalization`).
            initialization: The distribution of the initial weights (see `draw_`).
            softmax: Apply a softmax over the actions to the action values.
            members: Number of networks in the stack; 0 if there is no stack.
        """
        super().__init__()
        units = Units(activation, members)
        hidden: list[list[nn.Module]] = []
        d_in = size
        for width in widths:
            hidden.append(hidden_layer(d_in, width, units, normalization, initialization, generator))
            d_in = units.features(width)
        head = head_layer(d_in, actions, members, initialization, generator)
        self.encoder = nn.Sequential(*hidden[0])
        behind = [head, nn.Softmax(-1)] if softmax else [head]
        self.mlp = nn.Sequential(*(part for parts in hidden[1:] for part in parts), *behind)

    def forward(self, vectors: Tensor) -> Tensor:
        """Return the action values, (n, actions), of vectors (n, size) of any floating type."""
        return self.mlp(self.encoder(vectors.float()))

    def layers(self) -> tuple[Layer, ...]:
        """Return the first linear layer (encoder), the others (hidden) and the last (head)."""
        return chain(self)

    def units(self) -> tuple[str, ...]:
        """Return the names of the activation modules. The outputs of the last are called features."""
        return unit_names(self)


class NatureCNN(nn.Module):
    """The Nature CNN, which returns the action values of stacked grey frames.

        frames (n, stack, H, W) uint8 → /255 → encoder: 3 × (convolution, activation), flatten
                                             → mlp: a hidden layer, linear → (n, actions)

    Plasticity injection duplicates `mlp`. `normalization` applies to its hidden layer only, not to the convolutions
    (one layer was enough for Gogianu et al. 2021, arXiv 2105.05246). Weights and outputs have the memory format
    channels_last, with which a forward and a backward pass together are 1.5 to 1.6 times faster on a CPU.
    """

    def __init__(
        self,
        stack: int,
        height: int,
        width: int,
        actions: int,
        hidden: int,
        activation: str,
        generator: torch.Generator | None,
        normalization: Normalization = "none",
        initialization: Initialization = "xavier",
        members: int = 0,
    ) -> None:
        """Draw a new network, or make a stack of them for `stack_networks`.

        Args:
            stack: Frames per observation.
            height: Height of a frame in pixels.
            width: Width of a frame in pixels.
            actions: Number of actions.
            hidden: Width of the linear layer after the convolutions.
            activation: Name of the activation, with optional parameters.
            generator: Draws the initial weights. None for a stack.
            normalization: The normalisation of the linear hidden layer (see `networks.normalization`).
            initialization: The distribution of the initial weights (see `draw_`).
            members: Number of networks in the stack; 0 if there is no stack.

        Raises:
            ValueError: The frames are too small for the convolutions (less than 36 pixels on a side).
        """
        super().__init__()
        units = Units(activation, members)
        self.channels = (0, 2) if members else (1,)  # in a stack, those of all members are channels of one convolution
        encoder: list[nn.Module] = []
        channels, sides = stack, [height, width]
        for out, kernel, stride in CONVOLUTIONS:
            convolution: nn.Conv2d | StackedConv2d
            if members:
                convolution = StackedConv2d(members, channels, units.preactivations(out), kernel, stride=stride)
            else:
                convolution = nn.Conv2d(channels, units.preactivations(out), kernel, stride)
            encoder += [draw_(convolution, initialization, generator), units(out, axis=-3)]
            channels, sides = units.features(out), [(side - kernel) // stride + 1 for side in sides]
        if min(sides) < 1:
            raise ValueError(f"frames of {height} × {width} are too small for the Nature CNN: use at least 36 × 36")
        self.encoder = nn.Sequential(*encoder, nn.Flatten(2 if members else 1))
        inputs = channels * sides[0] * sides[1]
        self.mlp = nn.Sequential(
            *hidden_layer(inputs, hidden, units, normalization, initialization, generator),
            head_layer(units.features(hidden), actions, members, initialization, generator),
        )
        for layer in (m for m in encoder if isinstance(m, nn.Conv2d | StackedConv2d)):
            layer.weight.data = _channels_last(layer.weight, -3)

    def forward(self, frames: Tensor) -> Tensor:
        """Return the action values, (n, actions), of frames (n, stack, H, W) in uint8."""
        x = _channels_last(frames, *self.channels)
        return self.mlp(self.encoder(x.float().mul_(1 / 255)))

    def layers(self) -> tuple[Layer, ...]:
        """Return the three convolutions (encoder), the first linear layer (hidden) and the last (head)."""
        *encoder, hidden, head = chain(self)
        return (*(replace(layer, role="encoder") for layer in encoder), hidden, head)

    def units(self) -> tuple[str, ...]:
        """Return the names of the activation modules. The outputs of the last are called features."""
        return unit_names(self)


def _channels_last(images: Tensor, *axes: int) -> Tensor:
    """Return images or kernels whose memory has these axes last."""
    last = tuple(range(-len(axes), 0))
    return images.movedim(axes, last).contiguous().movedim(last, axes)
