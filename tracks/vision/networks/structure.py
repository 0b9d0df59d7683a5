"""The parts that networks for images share: what a `Learner` needs of them, and checks of image sizes."""

from torch import nn

from supple.interventions import Layer, chain
from supple.networks import Scope

Shape = tuple[int, int, int]  # channels, height, width
CHANNELS = -3  # the axis of the units of images


class Network(nn.Module):
    """A network that classifies images, with what a `Learner` needs to know about it.

    injectable: the part that plasticity injection duplicates. features: the module whose outputs the head reads, if
    that is not the last activation. fire_scope: the layers that FIRE rewrites.
    """

    injectable: str
    features: str | None = None
    fire_scope: Scope = "all"

    def layers(self) -> tuple[Layer, ...]:
        """Return the network's layers with their roles, in forward order."""
        return chain(self)


def check_sides(network: str, shape: Shape, least: int, multiple: bool = False) -> None:
    """Raise ValueError if a side of the images is smaller than `least` or, with `multiple`, no multiple of it."""
    _, height, width = shape
    if min(height, width) < least or (multiple and (height % least or width % least)):
        rule = f"multiples of {least}" if multiple else f"{least} pixels or more"
        raise ValueError(f"{network}: images of {height} × {width} do not fit, their sides must be {rule}")
