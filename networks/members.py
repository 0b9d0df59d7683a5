"""Stacks of networks: the parameters of one member, and random draws that do not depend on other members."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .layers import Layer
from .learner import Learner

Source = torch.Generator | Sequence[torch.Generator] | None


def members_of(learner: Learner) -> int:
    """Return the number of networks in the learner's stack, or 0 if it is not a stack."""
    sizes = {len(layer.weight) if layer.stacked else 0 for layer in learner.layers}
    return sizes.pop() if len(sizes) == 1 else 0


def own_axes(layer: Layer) -> tuple[int, ...]:
    """Return the axes of a layer's weight that lie within one network."""
    return tuple(range(int(layer.stacked), layer.weight.ndim))


def has_members(parameter: Tensor, networks: int) -> bool:
    """Return whether a parameter, (networks, …), has a separate part for each of this number of networks."""
    return networks > 1 and parameter.ndim > 0 and len(parameter) == networks


def fit(values: Tensor, like: Tensor) -> Tensor:
    """Return one value per network, () or (members,), in a shape that broadcasts to a parameter."""
    return values.view(*values.shape, *[1] * (like.ndim - values.ndim))


def normal_like(tensor: Tensor, source: Source) -> Tensor:
    """Return standard normal noise with the shape, dtype and device of a tensor.

    Args:
        tensor: A tensor of any shape; of a stack, (members, …).
        source: A generator, or one for each member of a stack. A member's noise then equals that of a separate network
            with this generator. None: PyTorch's global CPU generator.
    """

    def draw(shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        device = "cpu" if generator is None else generator.device
        return torch.randn(shape, generator=generator, dtype=tensor.dtype, device=device)

    if source is None or isinstance(source, torch.Generator):
        return draw(tensor.shape, source).to(tensor.device)
    return torch.stack([draw(tensor.shape[1:], generator) for generator in source]).to(tensor.device)
