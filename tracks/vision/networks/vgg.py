"""VGG-16 with batch normalisation (Simonyan & Zisserman 2015, configuration D; Ioffe & Szegedy 2015).

    images → 13 × (3×3 convolution, BatchNorm, activation), sides halved by max-pooling after the 2nd, 4th, 7th, 10th
             and 13th → flatten → Linear, activation, Linear, activation, Linear

The classifier has 1024 hidden units. Simonyan & Zisserman have 4096, for images of 224². FIRE's paper does not give the
number. Its released code follows Hare & Tortoise (Lee et al. 2024), whose VGG-16 for Tiny-ImageNet has [1024, 1024]
without dropout, and FIRE's Table 2 lists no dropout. `hidden=4096` on 224² images is the original.
"""

import torch
from torch import Tensor, nn

from supple.networks.activations import Units

from .structure import CHANNELS, Network, Shape, check_sides

STAGES = ((1, 2), (2, 2), (4, 3), (8, 3), (8, 3))  # (channels in units of `width`, convolutions) before each pooling


class VGG16(Network):
    """Images (n, channels, h, w), with sides that are multiples of 32 → logits (n, classes).

    The convolutions have 14,723,136 parameters at full width. Initialisation and memory format are those of ResNet18.

    Args:
        shape: Channels, height and width of the images.
        classes: The number of outputs.
        width: Channels of the first convolutions, 64 in VGG-16.
        activation: The activation, with optional parameters.
        hidden: Width of the classifier's hidden layers, by default 16·width.

    Raises ValueError if the sides do not fit.
    """

    injectable = "classifier"

    def __init__(
        self, shape: Shape, classes: int, width: int = 64, activation: str = "relu", hidden: int | None = None
    ) -> None:
        super().__init__()
        check_sides("vgg16", shape, 2 ** len(STAGES), multiple=True)
        units = Units(activation)
        d_in = shape[0]
        encoder: list[nn.Module] = []
        for factor, convolutions in STAGES:
            for _ in range(convolutions):
                d_out = units.preactivations(factor * width)
                convolution = nn.Conv2d(d_in, d_out, 3, padding=1)
                encoder += [convolution, nn.BatchNorm2d(d_out), units(factor * width, axis=CHANNELS)]
                d_in = units.features(factor * width)
            encoder.append(nn.MaxPool2d(2))
        self.encoder = nn.Sequential(*encoder, nn.Flatten())
        positions = (shape[1] >> len(STAGES)) * (shape[2] >> len(STAGES))
        hidden = 16 * width if hidden is None else hidden
        wide, read = units.preactivations(hidden), units.features(hidden)
        self.classifier = nn.Sequential(
            nn.Linear(d_in * positions, wide), units(hidden), nn.Linear(read, wide), units(hidden),
            nn.Linear(read, classes),
        )  # fmt: skip
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # not in PyTorch's stubs

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.encoder(images.contiguous(memory_format=torch.channels_last)))
