"""Smooth activations: sigmoids, gated rectifiers, and the smooth leaky family of Lillo & Cheney."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import Activation, RandomSlope, activations, finite, positive

Draws = Literal["pass", "element"]


@activations.register("sigmoid")
def sigmoid() -> nn.Module:
    """Return f(x) = 1/(1 + e⁻ˣ). Slope at most 1/4; floor 0, in both tails."""
    return nn.Sigmoid()


@activations.register("tanh")
def tanh() -> nn.Module:
    """Return f(x) = tanh x. Floor 0, in both tails."""
    return nn.Tanh()


@activations.register("swish")
class Swish(Activation):
    """f(x) = x·σ(βx) (Ramachandran et al. 2017). Slope from −0.0998 to 1.0998, any β ≠ 0; floor 0."""

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        self.beta = finite("swish", beta=beta)

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(x) if self.beta == 1 else x * torch.sigmoid(self.beta * x)


@activations.register("gelu")
class GELU(Activation):
    """f(x) = x·Φ(βx), exact (Hendrycks & Gimpel 2016). Slope from −0.1289 to 1.1289, any β; floor 0.

    Lillo & Cheney sweep β (Table B1) without a formula. This one is Hendrycks & Gimpel's x·P(X ≤ x) for X ~ N(0, σ²)
    with β = 1/σ. It ranges from x/2 (β → 0) to ReLU (β → ∞), as does swish with its β in that table.
    """

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        self.beta = positive("gelu", beta=beta)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x) if self.beta == 1 else F.gelu(self.beta * x) / self.beta


@activations.register("smooth_leaky")
class SmoothLeaky(Activation):
    """f(x) = αx + (1 − α)·x·σ(cx/p) (Lillo & Cheney, eq. 1); defaults of their Figure 5.

    It is αx far to the left and x far to the right; c/p > 0 sets the sharpness of the transition.

    Derivative floor: min(1.0998α − 0.0998, 1.0998 − 0.0998α) if that is positive, i.e. for 0.0908 < α < 11.02, else 0.
    It does not depend on c and p, since the slope of z·σ(z) spans [−0.0998, 1.0998]. The paper takes α itself as the
    floor, but left of 0 the slope falls below its limit α: at α = 0.1 to 0.0101, and for smaller α below zero.
    """

    def __init__(self, alpha: float = 0.1, c: float = 5.0, p: float = 3.0) -> None:
        super().__init__()
        self.alpha = finite("smooth_leaky", alpha=alpha)
        self.c = positive("smooth_leaky", c=c)
        self.p = positive("smooth_leaky", p=p)

    def forward(self, x: Tensor) -> Tensor:
        return _smooth_leaky(x, self.alpha, self.c / self.p)


@activations.register("rand_smooth_leaky")
class RandSmoothLeaky(RandomSlope):
    """f(x) = rx + (1 − r)·x·σ(cx/p), r ~ U(lower, upper) (Lillo & Cheney, eq. 2).

    In training, r is drawn from torch's global generator of the input's device, or from `generators`. In evaluation
    mode r = (lower + upper)/2. The paper contradicts itself about what one r is for. Defaults: Table E2, Permuted
    MNIST. Derivative floor: that of `SmoothLeaky` at the worst r in range.

    Args:
        lower: The smallest r.
        upper: The largest r, ≥ `lower`.
        c: c/p > 0 sets the sharpness of the transition.
        p: See `c`.
        draws: "pass" draws one r for a forward pass, as in eq. 2 and Section 5.1: for the whole tensor, and in a stack
            for each member. "element" draws one for each element, as in Table B1 and in rrelu.
    """

    def __init__(
        self, lower: float = 0.3, upper: float = 0.6, c: float = 0.8, p: float = 1.0, draws: Draws = "pass"
    ) -> None:
        super().__init__("rand_smooth_leaky", lower, upper)
        self.c = positive("rand_smooth_leaky", c=c)
        self.p = positive("rand_smooth_leaky", p=p)
        self.draws = draws

    def forward(self, x: Tensor) -> Tensor:
        slope = self.slope(x, (1,) if self.draws == "pass" else None)
        if isinstance(slope, Tensor) and self.draws == "pass":
            slope = self.along(slope, x)
        return _smooth_leaky(x, slope, self.c / self.p)


def _smooth_leaky(x: Tensor, slope: Tensor | float, sharpness: float) -> Tensor:
    return x * (slope + (1 - slope) * torch.sigmoid(sharpness * x))
