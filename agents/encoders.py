"""Convolutions that read images, by name: those of the Nature DQN, of IMPALA and of MinAtar's DQN. Own networks."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from supple.envs import Picture
from supple.interventions import StackedConv2d, Units
from supple.networks.redraw import borrow_generators, seed_from
from supple.networks.stacked import StackedMaxPool2d
from supple.networks.unchanged import unchanged
from supple.registry import Registry, bind, naming, parse_call, summary
from supple.registry.errors import refusing

CHANNELS = -3  # the axis of channels
Convolution = nn.Conv2d | StackedConv2d
Draw = Callable[[Convolution], object]


class Design(NamedTuple):
    """An encoder.

    Attributes:
        channels: The channels of its convolutions, or of the stages of a residual network.
        kernels: (side, stride) of each convolution; () for a residual network.
        hidden: The usual widths of the linear layers behind it.
    """

    channels: tuple[int, ...]
    kernels: tuple[tuple[int, int], ...]
    hidden: tuple[int, ...]


encoders: Registry[Callable[..., Design]] = Registry("encoder")
own_networks: Registry[Callable[[int], nn.Module]] = Registry("network")  # of users, by FILE.py:FUNCTION


@encoders.register("nature")
def nature(channels: tuple[int, ...] = (32, 64, 64)) -> Design:
    """Return the three convolutions of Mnih et al. 2015, without padding: 8 × 8, stride 4; 4 × 4, 2; 3 × 3, 1."""
    if len(channels) != 3:
        raise ValueError(f"nature: channels must be those of three convolutions, got {len(channels)}")
    return Design(channels, ((8, 4), (4, 2), (3, 1)), (512,))


@encoders.register("impala")
def impala(channels: tuple[int, ...] = (16, 32, 32)) -> Design:
    """Return the residual network of Espeholt et al. 2018 (arXiv 1802.01561, Figure 3)."""
    return Design(channels, (), (256,))


@encoders.register("minatar")
def minatar(channels: tuple[int, ...] = (16,)) -> Design:
    """Return 3 × 3 convolutions without padding: one in Young & Tian 2019 (arXiv 1903.03176)."""
    return Design(channels, ((3, 1),) * len(channels), (128,))


def parse_encoder(text: str, picture: Picture) -> Design:
    """Return the encoder that a text such as "impala(channels=[16,32])" names, for these images.

    "auto" is nature, or minatar for images that are too small for it.
    Raises ValueError for an unknown name or parameter, channels below 1, and images that are too small."""
    if text == "auto":
        fits = not _too_small(nature(), picture)
        return nature() if fits else parse_encoder("minatar", picture)
    with refusing("--encoder", ValueError):
        call = parse_call(text)
        factory = encoders.get(call.name)
        design = factory(**bind(factory, call.params, call.name))
        if not design.channels or min(design.channels) < 1:
            raise ValueError(f"{call.name}: channels must be numbers of 1 or more, got {list(design.channels)}")
    if least := _too_small(design, picture):
        raise ValueError(
            f"images of {picture.height} × {picture.width} pixels are too small for --encoder {text}: "
            f"it needs {least} × {least} or more"
        )
    return design


def _too_small(design: Design, picture: Picture) -> int:
    """Return the smallest side that a design needs if the images are smaller, else 0."""
    least = 1
    for kernel, stride in reversed(design.kernels):
        least = (least - 1) * stride + kernel
    return least if min(picture.height, picture.width) < least else 0


class OwnNetwork(nn.Module):
    """A network of the user's as an encoder: rows of numbers (n, d) → features (n, features).

    Args:
        text: FILE.py:FUNCTION. The function has been registered (see `plugins.load`). It takes d.
        size: The numbers of a row, d.
        generator: Seeds PyTorch's, NumPy's and Python's global generators while the function draws the initial weights.

    Attributes:
        features: The number of features.

    Raises:
        ValueError: The function returns no module, or one that does not return such features.
        Exception: What the function or the network raises.
    """

    def __init__(self, text: str, size: int, generator: torch.Generator | None) -> None:
        super().__init__()
        if (name := Path(text).name) not in own_networks.entries:
            raise ValueError(f"--encoder {text}: supple imports no file unless you name it here: add --plugin {text}")
        with naming(f"--encoder {text}"), borrow_generators(seed_from(generator)):
            self.network = own_networks.get(name)(size)
        if not isinstance(self.network, nn.Module):
            raise ValueError(f"--encoder {text} must return a torch.nn.Module, but returned {summary(self.network)}")
        with naming(f"--encoder {text}"), unchanged(self.network), torch.no_grad():
            features = self(torch.zeros(2, size))
        if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != 2:
            raise ValueError(f"--encoder {text} must turn rows (n, {size}) into features (n, d): {summary(features)}")
        self.features = features.shape[1]

    def forward(self, rows: Tensor) -> Tensor:
        return self.network(rows.to(torch.get_default_dtype()))


class Convolutions(nn.Sequential):
    """An encoder: rows of numbers (n, d) → features (n, features), in a stack with the members as the first axis.

    The first `picture.size` numbers of a row are an image, which is scaled to 0 … 1. The others, if any, are joined to
    the features as they are. Kernels and activations have the memory format channels_last, with which a forward and a
    backward pass together are 1.5 to 1.6 times faster on a CPU.

    Args:
        picture: How the image lies in a row.
        size: The numbers of a row, d.
        encoder: The name of the encoder (see `parse_encoder`).
        units: The activation of the network, which also says how many networks the stack has.
        draw: Initialises a convolution in place.

    Attributes:
        design: The encoder.
        features: The number of features.

    Raises:
        ValueError: As `parse_encoder`.
    """

    def __init__(self, picture: Picture, size: int, encoder: str, units: Units, draw: Draw) -> None:
        design = parse_encoder(encoder, picture)
        parts: list[nn.Module] = []
        width, sides = picture.channels, [picture.height, picture.width]
        kind = OnlyConvolution if len(design.kernels) == 1 else nn.Conv2d
        for out, (kernel, stride) in zip(design.channels, design.kernels, strict=False):
            parts += [_convolution(width, out, units, draw, kernel, stride, kind=kind), units(out, axis=CHANNELS)]
            width, sides = units.features(out), [(side - kernel) // stride + 1 for side in sides]
        if not design.kernels:
            for out in design.channels:
                parts.append(ResidualStage(width, out, units, draw))
                width, sides = units.preactivations(out), [-(-side // 2) for side in sides]
            parts.append(units(out, axis=CHANNELS))
            width = units.features(out)
        super().__init__(*parts, nn.Flatten(2 if units.members else 1))
        self.picture, self.design, self.size = picture, design, size
        self.features = width * sides[0] * sides[1] + size - picture.size
        self.stacked = bool(units.members)
        for part in self.modules():
            if isinstance(part, nn.Conv2d | StackedConv2d):
                part.weight.data = channels_last(part.weight, CHANNELS)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the features of rows of any type."""
        p = self.picture
        images = rows if self.size == p.size else rows[..., : p.size]
        if p.last and p.frames == 1:
            images = images.unflatten(-1, (p.height, p.width, p.channels)).movedim(-1, CHANNELS)
        elif p.last:
            frames = images.unflatten(-1, (p.frames, p.height, p.width, p.channels // p.frames))
            images = frames.movedim(-1, CHANNELS).flatten(-4, -3)
        else:
            images = images.unflatten(-1, (p.channels, p.height, p.width))
        # in a stack, the channels of all members are channels of one convolution
        plain = torch.channels_last
        images = channels_last(images, 0, 2) if self.stacked else images.contiguous(memory_format=plain)
        scaled = images.to(torch.get_default_dtype(), copy=True)
        if p.low == p.low and (p.low, p.high) != (0, 1):  # there are bounds; in place, as images are large
            scaled = (scaled.sub_(p.low) if p.low else scaled).mul_(1 / (p.high - p.low))
        features: Tensor = super().forward(scaled)
        if self.size == p.size:
            return features
        return torch.cat([features, rows[..., p.size :].to(features.dtype)], -1)


def make_encoder(
    picture: Picture | None, size: int, encoder: str, units: Units, draw: Draw, generator: torch.Generator | None
) -> Convolutions | OwnNetwork | None:
    """Return what reads rows before an agent's other layers: None for vectors, unless the user has a network.

    Raises ValueError as `Convolutions` and `OwnNetwork`, or if convolutions should read vectors."""
    if ".py:" in encoder:
        return OwnNetwork(encoder, size, generator)
    if picture is None and encoder != "auto":
        raise ValueError(f"--encoder {encoder} reads images, but the environment shows vectors: leave it out")
    return None if picture is None else Convolutions(picture, size, encoder, units, draw)


class ResidualStage(nn.Module):
    """A stage of IMPALA: a 3 × 3 convolution, 3 × 3 max pooling with stride 2, and two residual blocks.

    A block is x + second(activation2(first(activation1(x)))), with 3 × 3 convolutions.
    """

    def __init__(self, d_in: int, width: int, units: Units, draw: Draw) -> None:
        super().__init__()
        pool = StackedMaxPool2d if units.members else nn.MaxPool2d
        self.convolution, self.pool = _convolution(d_in, width, units, draw, 3, 1, 1), pool(3, 2, 1)
        self.blocks = nn.ModuleList()
        for _ in range(2):
            first: nn.Module = _convolution(units.features(width), width, units, draw, 3, 1, 1)
            second = _convolution(units.features(width), width, units, draw, 3, 1, 1)
            block = {"activation1": units(width, axis=CHANNELS), "first": first}
            block |= {"activation2": units(width, axis=CHANNELS), "second": second}
            self.blocks.append(nn.ModuleDict(block))

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.convolution(x))
        for block in self.blocks:
            assert isinstance(block, nn.ModuleDict)
            inner = x
            for part in block.values():
                inner = part(inner)
            x = x + inner
        return x


def _convolution(
    d_in: int, width: int, units: Units, draw: Draw, kernel: int, stride: int = 1, padding: int = 0,
    kind: type[nn.Conv2d] = nn.Conv2d,
) -> Convolution:  # fmt: skip
    """Return an initialised convolution, or those of a stack, for a number of units."""
    d_out, members = units.preactivations(width), units.members
    layer: Convolution
    if members:
        layer = StackedConv2d(members, d_in, d_out, kernel, padding, stride)
    else:
        layer = kind(d_in, d_out, kernel, stride, padding)
    draw(layer)
    return layer


class OnlyConvolution(nn.Conv2d):
    """A convolution without padding, as one product of all patches of the images, which is faster on a CPU if images
    are small: its forward and backward pass by two thirds at 10 × 10 × 4. Its outputs lie channel by channel, so that
    flattening them moves whole images."""

    def _conv_forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if len(x) == 1 or bias is None:
            return super()._conv_forward(x, weight, bias)
        (high, wide), (down, across) = self.kernel_size, self.stride
        n, channels, *sides = x.shape
        rows, columns = (sides[0] - high) // down + 1, (sides[1] - wide) // across + 1
        each, of_channel, of_row, of_pixel = x.stride()
        # torch.compile computes the place of each number anew for other views than these of what lies in memory
        strides = each, of_row * down, of_pixel * across, of_row, of_pixel, of_channel
        patches = x.as_strided((n, rows, columns, high, wide, channels), strides).contiguous()
        size = high * wide * channels
        out = weight.movedim(1, -1).flatten(1) @ patches.as_strided((n * rows * columns, size), (size, 1)).T
        return out.view(-1, n, rows, columns).transpose(0, 1) + bias[:, None, None]


def channels_last(images: Tensor, *axes: int) -> Tensor:
    """Return images or kernels whose memory has these axes last."""
    last = tuple(range(-len(axes), 0))
    return images.movedim(axes, last).contiguous().movedim(last, axes)
