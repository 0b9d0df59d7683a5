"""Activations with an exponential on the negative side, which saturates there."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import Activation, RandomSlope, activations, positive

# The pair that makes mean 0 and variance 1 a fixed point under N(0, 1) (Klambauer et al. 2017, eq. 14).
ALPHA, SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


@activations.register("elu")
def elu(alpha: float = 1.0) -> nn.Module:
    """Return f(x) = x for x > 0, α(eˣ − 1) below, α > 0 (Clevert et al. 2015). Floor 0 (left tail); C¹ for α = 1."""
    return nn.ELU(positive("elu", alpha=alpha))


@activations.register("celu")
def celu(alpha: float = 1.0) -> nn.Module:
    """Return f(x) = x for x > 0, α(e^(x/α) − 1) below, α > 0 (Barron 2017). Floor 0, in the left tail; C¹ for any α."""
    return nn.CELU(positive("celu", alpha=alpha))


@activations.register("selu")
class SELU(Activation):
    """f(x) = λx for x > 0, λα(eˣ − 1) below (Klambauer et al. 2017); λ is `scale`. Floor 0, in the left tail.

    Self-normalising at the default (α, λ) only; Lillo & Cheney sweep α alone (Table B1).
    """

    def __init__(self, alpha: float = ALPHA, scale: float = SCALE) -> None:
        super().__init__()
        self.alpha, self.scale = positive("selu", alpha=alpha), positive("selu", scale=scale)

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * F.elu(x, self.alpha)


@activations.register("rselu")
class RSELU(RandomSlope):
    """f(x) = λx for x ≥ 0, λr(eˣ − 1) below, r ~ U(lower, upper) (Lillo & Cheney, eq. 9), its mean in evaluation mode.

    One r is drawn for each element, as in rrelu, whose regularisation it combines with SELU's stability; eq. 9 does not
    say so. λ is SELU's. Defaults: Figure G2, around SELU's α. In training the second moment of N(0, 1) rises by
    λ²·Var(r)·E[(eˣ − 1)²; x < 0], 3 % at the defaults. It is therefore self-normalising in evaluation mode, and nearly
    so in training. Floor 0, in the left tail.
    """

    def __init__(self, lower: float = 0.9232, upper: float = 2.4232) -> None:
        super().__init__("rselu", positive("rselu", lower=lower), upper)

    def forward(self, x: Tensor) -> Tensor:
        slope = self.slope(x)
        if not isinstance(slope, Tensor):
            return SCALE * F.elu(x, slope)
        return SCALE * torch.where(x < 0, slope * torch.expm1(x.clamp(max=0)), x)
