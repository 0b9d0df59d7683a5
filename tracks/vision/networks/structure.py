"""What the networks for images share: how their layers are listed, and what they ask of their images."""

from collections.abc import Sequence

import torch
from torch import nn

from ....interventions import Layer, chain, unit_names
from ....networks import Role, Scope

Shape = tuple[int, int, int]  # channels, height, width
CHANNELS = -3  # the axis of the units of images


class Network(nn.Module):
    """A network that classifies images, and what a `Learner` has to know of it.

    injectable: the part that plasticity injection duplicates. features: the module that the head reads, where that is
    not the last of the units. fire_scope: what FIRE rewrites.
    """

    injectable: str
    features: str | None = None
    fire_scope: Scope = "all"

    def layers(self) -> tuple[Layer, ...]:
        """Return the network's layers with their roles, in forward order."""
        return chain(self)

    def units(self) -> tuple[str, ...]:
        """Return names of its activations, in forward order."""
        return unit_names(self)


def layers_by_depth(module: nn.Module, names: Sequence[Sequence[str]]) -> tuple[Layer, ...]:
    """Return the layers with these names, from the input on; those in one group lie side by side, at one depth.

    Roles as in `chain`: what reads the images is the encoder, the last is the head, all between are hidden.
    """
    last = len(names) - 1

    def role(depth: int) -> Role:
        return "head" if depth == last else "hidden" if depth else "encoder"

    return tuple(
        Layer(name, module.get_submodule(name), role(depth), depth)
        for depth, group in enumerate(names)
        for name in group
    )


def check_sides(network: str, shape: Shape, multiple: int) -> None:
    """Raise ValueError for images whose sides are no multiple of what the network divides them by."""
    _, height, width = shape
    if min(height, width) < multiple or height % multiple or width % multiple:
        raise ValueError(
            f"{network}: images of {height} × {width} do not fit, their sides must be multiples of {multiple}"
        )


def check_size(network: str, shape: Shape, least: int) -> None:
    """Raise ValueError for images of which a network without padding would leave nothing."""
    _, height, width = shape
    if min(height, width) < least:
        raise ValueError(
            f"{network}: images of {height} × {width} do not fit, their sides must be {least} pixels or more"
        )


def channels_last_(module: nn.Module) -> None:
    """Lay the kernels out in memory channels last; activations follow if the images lie so."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            part.weight.data = part.weight.data.contiguous(memory_format=torch.channels_last)
