"""Layers whose weight vectors have a fixed length, to which each optimizer step is followed by a projection.

    w ← n·w/‖w‖      for each unit's incoming weights n = 1, for the gains (and shifts) of a normalisation n = √width

The outputs of these layers depend on the directions of their weights alone, so weights cannot grow, and the effective
learning rate is the learning rate. SimBaV2 (Lee et al. 2025, arXiv 2502.15280) projects the rows of all Linear layers,
FlashSAC also normalisations (released code; each gain with its shift as one vector). Normalize-and-Project (`nap`)
projects whole matrices to the length that they had at step 0, by the same function.

What changes weights otherwise, such as an intervention, is followed by the projection too (`contract.settle`).
"""

import functools
import math
from collections.abc import Callable, Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .batch_norm import BatchNorm
from .stacked import StackedLinear

SMALLEST = 1e-8  # length by which a vector of zeros is divided, as in the released code of both papers
Vectors = tuple[Sequence[Tensor], float]


@torch.no_grad()
def rescale_(tensors: Sequence[Tensor], length: float | Tensor, axes: int | tuple[int, ...] = -1) -> None:
    """Scale vectors to a length, in place.

    Args:
        tensors: The parts of each vector, of one number of dimensions: weights (…, d), or gains and shifts.
        length: The new Euclidean length of each vector, a number or broadcastable to the tensors.
        axes: The axes that lie within a vector.
    """
    lengths = [torch.linalg.vector_norm(tensor, dim=axes, keepdim=True) for tensor in tensors]
    scale = length / functools.reduce(torch.hypot, lengths).clamp_min(SMALLEST)
    for tensor in tensors:
        tensor.mul_(scale)


class Projected(nn.Module):
    """A layer whose parameters are projected (see `project_`)."""

    def vectors(self) -> Vectors:
        """Return the tensors that are the parts of vectors along their last axis, and the vectors' length."""
        raise NotImplementedError


def projected(module: nn.Module) -> list[Projected]:
    """Return the layers of a network that are projected after each optimizer step: those that are trained."""
    parts = [part for part in module.modules() if isinstance(part, Projected)]
    return [part for part in parts if any(tensor.requires_grad for tensor in part.vectors()[0])]


def project_(parts: Iterable[nn.Module]) -> None:
    """Give the vectors of layers their length again, in place. Those of layers that have none stay as they are."""
    for part in parts:
        if isinstance(part, Projected):
            rescale_(*part.vectors())


class UnitLinear(Projected, nn.Linear):
    """A Linear layer whose rows, the incoming weights of each unit, have length 1. Its bias, if any, is free."""

    def vectors(self) -> Vectors:
        return [self.weight], 1.0


class StackedUnitLinear(Projected, StackedLinear):
    """`UnitLinear` for several networks: weight (members, d_out, d_in)."""

    def vectors(self) -> Vectors:
        return [self.weight], 1.0


class UnitBatchNorm(Projected, BatchNorm):
    """Batch normalisation whose gains and shifts together have length √width."""

    def vectors(self) -> Vectors:
        return [self.weight, self.bias], math.sqrt(self.weight.shape[-1])


class UnitRMSNorm(Projected):
    """RMS normalisation whose gains have length √width: (n, width), or (members, n, width) for a stack → the same.

    Args:
        width: Number of features.
        members: Number of networks in the stack; 0 if there is no stack.
        eps: Added to the mean square.
    """

    def __init__(self, width: int, members: int = 0, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(*(members,) * bool(members), width))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], eps=self.eps) * self.weight.unsqueeze(-2)

    def vectors(self) -> Vectors:
        return [self.weight], math.sqrt(self.weight.shape[-1])


def unit_linear(
    d_in: int, d_out: int, members: int, draw: Callable[[Tensor], object], bias: bool = False
) -> UnitLinear | StackedUnitLinear:
    """Return a Linear layer with rows of length 1, or a stack of them; a bias begins at zero.

    Args:
        d_in: Number of inputs.
        d_out: Number of outputs.
        members: Number of layers in the stack; 0 if there is no stack.
        draw: Draws the weights of one layer, (d_out, d_in), before they are scaled.
        bias: Whether it has a bias.
    """
    layer = StackedUnitLinear(members, d_in, d_out, bias) if members else UnitLinear(d_in, d_out, bias)
    with torch.no_grad():
        for weight in layer.weight if members else (layer.weight,):
            draw(weight)
        if layer.bias is not None:
            layer.bias.zero_()
    project_([layer])
    return layer


class Scaler(nn.Module):
    """A learned factor for each feature, s·init/scale·x: (n, width), or (members, n, width) for a stack → the same.

    s starts at `scale`. So the factor starts at `init`, and Adam's step changes it by init/scale times the learning
    rate (SimBaV2's released code, simbaV2_layer.py).

    Args:
        width: Number of features.
        init: The first factor.
        scale: The first value of the parameter.
        members: Number of networks in the stack; 0 if there is no stack.
    """

    def __init__(self, width: int, init: float = 1.0, scale: float = 1.0, members: int = 0) -> None:
        super().__init__()
        self.factor = init / scale
        self.weight = nn.Parameter(torch.full((*(members,) * bool(members), width), scale))

    def forward(self, x: Tensor) -> Tensor:
        return (self.weight * self.factor).unsqueeze(-2) * x


def normalize(x: Tensor) -> Tensor:
    """Return vectors, (…, d), scaled to length 1; zeros stay zeros."""
    return F.normalize(x, dim=-1, eps=SMALLEST)


def shift(x: Tensor, by: float) -> Tensor:
    """Return x with one more number, (…, d) → (…, d + 1), so that its length survives a normalisation as an angle."""
    return F.pad(x, (0, 1), value=by)
