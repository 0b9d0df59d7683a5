"""Stacks of networks: the parameters of one member, and random draws that do not depend on other members."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .layers import Layer

Source = torch.Generator | Sequence[torch.Generator] | None


def own_axes(layer: Layer) -> tuple[int, ...]:
    """Return the axes of a layer's weight that lie within one network."""
    return tuple(range(int(layer.stacked), layer.weight.ndim))


def fit(values: Tensor, like: Tensor) -> Tensor:
    """Return one value per network, () or (members,), in a shape that broadcasts to a parameter."""
    return values.view(*values.shape, *[1] * (like.ndim - values.ndim))


def normal_like(tensor: Tensor, source: Source) -> Tensor:
    """Return standard normal noise with the shape, dtype and device of a tensor.

    Args:
        tensor: A tensor of any shape; of a stack, (members, …).
        source: A generator, or one for each seed of a stack, which draws for the networks of that seed at once. Their
            noise then equals that of a separate run with this generator. None: PyTorch's global CPU generator.
    """

    def draw(shape: Sequence[int], generator: torch.Generator | None) -> Tensor:
        device = "cpu" if generator is None else generator.device
        return torch.randn(shape, generator=generator, dtype=tensor.dtype, device=device)

    if source is None or isinstance(source, torch.Generator):
        return draw(tensor.shape, source).to(tensor.device)
    shape = len(tensor) // len(source), *tensor.shape[1:]
    return torch.cat([draw(shape, generator) for generator in source]).to(tensor.device)
