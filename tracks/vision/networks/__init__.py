"""Networks by name: small ones, stacked over seeds, and the large ones of FIRE's experiments."""

from collections.abc import Callable
from typing import Any

from .resnet import ResNet18
from .small import CNN, MLP, ConvNet
from .structure import Network, Shape
from .vgg import VGG16
from .vit import ViT

SMALL: dict[str, Callable[..., Network]] = {"mlp": MLP, "cnn": CNN, "convnet": ConvNet}
LARGE: dict[str, Callable[..., Network]] = {"resnet18": ResNet18, "vgg16": VGG16, "vit-tiny": ViT}

__all__ = [
    "CNN",
    "LARGE",
    "MLP",
    "SMALL",
    "VGG16",
    "ConvNet",
    "Network",
    "ResNet18",
    "ViT",
    "make_network",
]


def make_network(
    name: str,
    members: int,
    shape: Shape,
    classes: int,
    activation: str,
    width: int | None,
    init_lambda: float | None = None,
) -> Network:
    """Return a new network, drawn from PyTorch's global generator.

    Args:
        name: mlp, cnn, convnet, resnet18, vgg16 or vit-tiny.
        members: The number of networks in the stack, for the first three.
        shape: Channels, height and width of the images.
        classes: The number of outputs.
        activation: The activation, with optional parameters.
        width: Units of a hidden layer, or channels of the first layer. None: as published.
        init_lambda: The balance of the MLP's hidden units. None: no scaling.

    Raises ValueError if the width, the images or the activation do not fit.
    """
    sizes: dict[str, Any] = {} if width is None else {"width": width}
    if init_lambda is not None:
        if name != "mlp":
            raise ValueError(f"init_lambda balances units between Linear layers, those of mlp, and not of {name}")
        sizes["init_lambda"] = init_lambda
    if name in SMALL:
        return SMALL[name](members, shape, classes, activation, **sizes)
    return LARGE[name](shape, classes, activation=activation, **sizes)
