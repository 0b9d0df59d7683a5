"""Piecewise linear activations: ReLU, and those with a fixed, learned or random slope on the negative side."""

import math
from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import Activation, RandomSlope, Shared, activations, finite, ordered

Granularity = Literal["global", "layer", "neuron"]


@activations.register("relu")
def relu() -> nn.Module:
    """Return f(x) = max(x, 0). Derivative floor 0: no gradient for x < 0."""
    return nn.ReLU()


@activations.register("leaky_relu")
def leaky_relu(negative_slope: float = 0.01) -> nn.Module:
    """Return f(x) = x for x ≥ 0, negative_slope·x below (Maas et al. 2013). Floor min(1, |negative_slope|)."""
    return nn.LeakyReLU(finite("leaky_relu", negative_slope=negative_slope))


class LearnedSlope(Activation):
    """A leaky_relu whose slope on the negative side is a function of a learned `weight`.

    The weight belongs to the whole network (granularity global), to a layer, or to a unit (neuron; of a convolution, a
    channel). In a stack each member has its own. Its shape is (1 or units,), or (members, 1 or units).
    """

    homogeneous = True

    def __init__(self, name: str, granularity: Granularity, start: float) -> None:
        super().__init__()
        self.name, self.granularity = name, granularity
        self.weight = nn.Parameter(torch.full((1,), start))

    def configure(self, width: int | None, axis: int, members: int, shared: Shared) -> None:
        super().configure(width, axis, members, shared)
        if self.granularity == "neuron" and width is None:
            raise ValueError(f"{self.name}: granularity=neuron needs the width of the layer; build it with Units")
        units = width if self.granularity == "neuron" and width else 1
        self.weight = nn.Parameter(self.weight.detach().repeat((members, units) if members else (units,)))
        if self.granularity == "global":
            self.weight = shared.setdefault("slope", self.weight)

    def alone(self) -> Self:
        unit = super().alone()
        unit.weight = nn.Parameter(unit.weight.detach().mean(-1, keepdim=True))
        return unit

    def slope(self) -> Tensor:
        """Return the slopes in use, in the shape of `weight`."""
        return self.weight

    def forward(self, x: Tensor) -> Tensor:
        slope = self.slope()
        return F.prelu(x, slope) if slope.shape == (1,) else torch.where(x < 0, self.along(slope, x) * x, x)


@activations.register("prelu")
class PReLU(LearnedSlope):
    """leaky_relu with a learned slope that starts at `init` (He et al. 2015).

    granularity: one slope for the whole network (global), for each layer, or for each neuron (for a convolution, each
    channel): Lillo & Cheney, Section 3. The floor is min(1, |slope|); the slope is not bounded.
    """

    def __init__(self, init: float = 0.25, granularity: Granularity = "layer") -> None:
        super().__init__("prelu", granularity, finite("prelu", init=init))


@activations.register("bo_prelu")
class BoPReLU(LearnedSlope):
    """prelu with a bounded slope: lower + (upper − lower)·σ(weight) (Lillo & Cheney, eq. 8).

    Defaults: Table G4, Permuted MNIST (Figure G1 draws 0.65 in [0.6, 0.8]). Floor min(1, lower) for lower ≥ 0.

    Args:
        alpha: The initial slope, strictly between the bounds.
        lower: The lower bound of the slope.
        upper: The upper bound.
        granularity: As in `PReLU`.
    """

    def __init__(
        self, alpha: float = 0.75, lower: float = 0.5, upper: float = 1.0, granularity: Granularity = "layer"
    ) -> None:
        self.lower, self.upper = ordered("bo_prelu", lower, upper)
        if not lower < alpha < upper:
            raise ValueError(f"bo_prelu: alpha must lie between lower={lower} and upper={upper}, got {alpha}")
        share = (alpha - lower) / (upper - lower)
        super().__init__("bo_prelu", granularity, math.log(share / (1 - share)))

    def slope(self) -> Tensor:
        return self.lower + (self.upper - self.lower) * torch.sigmoid(self.weight)


@activations.register("rrelu")
class RReLU(RandomSlope):
    """leaky_relu with a slope ~ U(lower, upper) for each element (Xu et al. 2015), its mean in evaluation mode.

    Defaults as in torch and in Lillo & Cheney, Table B2. Floor min(1, lower) for lower ≥ 0.
    """

    homogeneous = True

    def __init__(self, lower: float = 0.125, upper: float = 1 / 3) -> None:
        super().__init__("rrelu", lower, upper)

    def forward(self, x: Tensor) -> Tensor:
        slope = self.slope(x)
        return torch.where(x < 0, x * slope, x) if isinstance(slope, Tensor) else F.leaky_relu(x, slope)
