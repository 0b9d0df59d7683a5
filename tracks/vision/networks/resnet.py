"""ResNet-18 for small images (He et al. 2016, "Deep Residual Learning for Image Recognition").

    images → 3×3 convolution → 4 stages × 2 blocks, (1, 2, 4, 8) × width channels, the sides halved between stages
           → mean over positions → Linear

This is the form for CIFAR that FIRE and its predecessors use: the first convolution is 3×3 without stride or pooling,
while He et al. use 7×7 with both for ImageNet. Shortcuts are identities, or a 1×1 convolution with normalisation if the
shapes differ (their option B).
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from supple.interventions import Layer, chain
from supple.networks.activations import Units

from .structure import CHANNELS, Network, Shape

BLOCKS = 2  # in each of the four stages of ResNet-18


def normalized_convolution(d_in: int, d_out: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """Return a convolution without bias, which keeps or halves the sides, followed by BatchNorm.

    Args:
        d_in: Channels of the input.
        d_out: Channels of the output.
        kernel: The kernel's side, an odd number of pixels.
        stride: 1 keeps the sides, and 2 halves them.
    """
    convolution = nn.Conv2d(d_in, d_out, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(d_out))


class BasicBlock(nn.Module):
    """activation(second(activation(first(x))) + shortcut(x)): (n, d_in, h, w) → (n, units, h/stride, w/stride).

    The units after `first` belong to the block alone. Those after the sum carry the residual stream.

    Args:
        d_in: Channels of the input.
        width: Units.
        stride: 1 or 2, of the first convolution.
        units: Makes the activations.
    """

    def __init__(self, d_in: int, width: int, stride: int, units: Units) -> None:
        super().__init__()
        d_out = units.preactivations(width)
        self.first = normalized_convolution(d_in, d_out, 3, stride)
        self.activation1 = units(width, axis=CHANNELS)
        self.second = normalized_convolution(units.features(width), d_out, 3)
        same = stride == 1 and d_in == d_out
        self.shortcut = nn.Identity() if same else normalized_convolution(d_in, d_out, 1)
        self.stride = stride
        self.activation2 = units(width, axis=CHANNELS)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.second(self.activation1(self.first(x)))
        # a 1×1 convolution with stride, in two steps: of fewer than 8 channels last, oneDNN 3.12 (PyTorch 2.13, AVX2)
        # writes the gradient of one with stride past the end of its memory
        kept = x if self.stride == 1 else x[:, :, :: self.stride, :: self.stride]
        return self.activation2(inner + self.shortcut(kept))


class ResNet18(Network):
    """Images (n, channels, h, w) → logits (n, classes). 11,173,962 parameters for 10 classes at full width.

    All layers have PyTorch's default initialisation, from its global generator. FIRE's paper and the released code that
    it builds on (Hare & Tortoise, Lee et al. 2024) use no other. Kernels and activations have the memory format
    channels_last, with which a training step on a CPU takes 0.8 of the time. Shapes do not change.

    Args:
        shape: Channels, height and width of the images.
        classes: The number of outputs.
        width: Channels of the first stage, 64 in ResNet-18.
        activation: The activation, with optional parameters.
    """

    features = "pool"
    injectable = "head"

    def __init__(self, shape: Shape, classes: int, width: int = 64, activation: str = "relu") -> None:
        super().__init__()
        units = Units(activation)
        self.stem = normalized_convolution(shape[0], units.preactivations(width), 3)
        self.activation = units(width, axis=CHANNELS)
        d_in, blocks = units.features(width), []
        for stage in range(4):
            for block in range(BLOCKS):
                blocks.append(BasicBlock(d_in, width << stage, 2 if stage and not block else 1, units))
                d_in = units.features(width << stage)
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(d_in, classes)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # not in PyTorch's stubs

    def forward(self, images: Tensor) -> Tensor:
        x = self.activation(self.stem(images.contiguous(memory_format=torch.channels_last)))
        return self.head(self.pool(self.blocks(x)))

    def layers(self) -> tuple[Layer, ...]:
        """Return all convolutions and the head. A shortcut has the depth of the first convolution of its block."""
        groups = [["stem.0"]]
        for name, block in self.blocks.named_children():
            shortcut = [] if isinstance(block.shortcut, nn.Identity) else [f"blocks.{name}.shortcut.0"]
            groups += [[f"blocks.{name}.first.0", *shortcut], [f"blocks.{name}.second.0"]]
        layers = {layer.name: layer for layer in chain(self)}
        depths = enumerate([*groups, ["head"]])
        return tuple(replace(layers[name], depth=depth) for depth, group in depths for name in group)
