"""The small networks of Lillo & Cheney (2025, arXiv 2509.22562), one per seed, as a stack.

Inputs are (members, n, channels, h, w) and outputs (members, n, classes). MLP and CNN have PyTorch's default
initialisation, which reproduces the paper's numbers for them. ConvNet has gains that fit the activation, as the paper
says.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from supple.interventions import StackedConv2d, StackedLinear, balance_layers_
from supple.networks.activations import Units, initial_gain
from supple.networks.stacked import StackedMaxPool2d

from .structure import Network, Shape, check_sides


class MLP(Network):
    """Two hidden layers (Lillo & Cheney 2025, Appendix B: of width 100).

    Args:
        members: The number of networks in the stack.
        shape: Channels, height and width of the images.
        classes: The number of outputs.
        activation: The activation, with optional parameters.
        width: Units of a hidden layer.
        init_lambda: Scale the initial weights so that hidden units have this balance (`balance_layers_`). None: no
            scaling.
    """

    injectable = "mlp"

    def __init__(
        self,
        members: int,
        shape: Shape,
        classes: int,
        activation: str,
        width: int = 100,
        init_lambda: float | None = None,
    ) -> None:
        super().__init__()
        self.mlp = _make_mlp(members, math.prod(shape), (width, width), classes, Units(activation, members))
        if init_lambda is not None:
            balance_layers_([[layer.module] for layer in self.layers()], init_lambda)

    def forward(self, x: Tensor) -> Tensor:
        return self.mlp(x.flatten(2))


class CNN(Network):
    """Two 5×5 convolutions of 16 channels, each with 2×2 max pooling, and two hidden layers.

    Source: Lillo & Cheney 2025, Appendix B.

    Args:
        members: The number of networks in the stack.
        shape: Channels, height and width of the images, 16 pixels or more.
        classes: The number of outputs.
        activation: The activation, with optional parameters.
        width: Units of a hidden layer, 100 in the paper.
    """

    injectable = "mlp"

    def __init__(self, members: int, shape: Shape, classes: int, activation: str, width: int = 100) -> None:
        super().__init__()
        check_sides("cnn", shape, 16)
        units, channels = Units(activation, members), 16
        out, features = units.preactivations(channels), units.features(channels)
        self.encoder = nn.Sequential(
            StackedConv2d(members, shape[0], out, 5),
            units(channels, axis=-3),
            StackedMaxPool2d(2),
            StackedConv2d(members, features, out, 5),
            units(channels, axis=-3),
            StackedMaxPool2d(2),
            nn.Flatten(2),
        )
        height, breadth = (((side - 4) // 2 - 4) // 2 for side in shape[1:])
        self.mlp = _make_mlp(members, features * height * breadth, (width, width), classes, units)

    def forward(self, x: Tensor) -> Tensor:
        return self.mlp(self.encoder(x))


class ConvNet(Network):
    """The network of Lillo & Cheney's case studies ("4×32 conv + 256-unit MLP").

    It has four 3×3 convolutions of 32 channels, pooled after every second one, and one hidden layer of 256 units. The
    paper does not give kernels, padding and pooling. Weights are initialised as in He et al. (2015), with the gain of
    the activation (Appendix B).

    Args:
        members: The number of networks in the stack.
        shape: Channels, height and width of the images, 4 pixels or more.
        classes: The number of outputs.
        activation: The activation, with optional parameters.
        width: Channels; the hidden layer is eight times as wide.
    """

    injectable = "mlp"

    def __init__(self, members: int, shape: Shape, classes: int, activation: str, width: int = 32) -> None:
        super().__init__()
        check_sides("convnet", shape, 4)
        units = Units(activation, members)
        out, features = units.preactivations(width), units.features(width)
        parts: list[nn.Module] = []
        for depth in range(4):
            parts.append(StackedConv2d(members, features if depth else shape[0], out, 3, padding=1))
            parts.append(units(width, axis=-3))
            if depth % 2:
                parts.append(StackedMaxPool2d(2))
        self.encoder = nn.Sequential(*parts, nn.Flatten(2))
        self.mlp = _make_mlp(members, features * (shape[1] // 4) * (shape[2] // 4), (8 * width,), classes, units)
        fit_gain_(self, initial_gain(parts[1]))

    def forward(self, x: Tensor) -> Tensor:
        return self.mlp(self.encoder(x))


def _make_mlp(members: int, inputs: int, widths: Sequence[int], classes: int, units: Units) -> nn.Sequential:
    """Return hidden layers of these widths and the head."""
    parts: list[nn.Module] = []
    for width in widths:
        parts += [StackedLinear(members, inputs, units.preactivations(width)), units(width)]
        inputs = units.features(width)
    return nn.Sequential(*parts, StackedLinear(members, inputs, classes))


@torch.no_grad()
def fit_gain_(network: Network, gain: float) -> None:
    """Draw all weights from N(0, gain²/fan-in), and those of the head from N(0, 1/fan-in). Set biases to 0."""
    for layer in network.layers():
        fan_in = layer.weight[0, 0].numel()
        nn.init.normal_(layer.weight, std=(1.0 if layer.role == "head" else gain) / math.sqrt(fan_in))
        nn.init.zeros_(layer.module.get_parameter("bias"))
