"""Activation functions by name, and the gain that suits each.

The leaky family is the subject of "Activation Function Design Sustains Plasticity in Continual Learning"
(paper 002): a derivative that stays away from zero on the negative side keeps units trainable. Each
factory below states its derivative floor, inf |f′(x)| over all x (the paper's footnote 2): 0 means that
some inputs, or the far tails, pass no gradient. Swapping the activation in a living network is an
intervention like any other.

Every factory returns an `nn.Module` that maps a tensor of any shape to the same shape, has no host
synchronisation and compiles into one graph. Bad parameters raise ValueError.
"""

import copy
import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .grammar import parse_call
from .registry import Registry, bind

activations: Registry[Callable[..., nn.Module]] = Registry("activation")


def activation(name: str, **params: Any) -> nn.Module:
    """A new activation module, e.g. `activation("smooth_leaky", alpha=0.3)`.

    Raises:
        UnknownName: no such activation; the message suggests the nearest.
        ValueError: an unknown parameter, or a value of the wrong type or out of range.
    """
    factory = activations.get(name)
    return factory(**bind(factory, params, name))


def parse_activation(text: str) -> nn.Module:
    """`activation` from its text form, e.g. `relu` or `smooth_leaky(alpha=0.3,c=0.3,p=0.1)`.

    Raises HookSyntaxError for the form, otherwise as `activation`; all are ValueErrors.
    """
    call = parse_call(text)
    return activation(call.name, **call.params)


def initial_gain(module: nn.Module) -> float:
    """The gain g of He et al. (2015) for any activation f: g = 1/√E[f(x)²], x ~ N(0, 1).

    Weights drawn with variance g²/fan_in after this activation give pre-activations with the variance of
    those before it, if these were standard normal. E is taken over f in eval mode (a randomised slope at
    its mean, a learnable one at its present value), in float64, by the trapezoidal rule on [−12, 12]. A
    grid with a node at 0 suits functions with a kink there, on which Gauss–Hermite converges slowly;
    on smooth ones the rule is exact to rounding, since the integrand vanishes at both ends.

    It equals `torch.nn.init.calculate_gain` for relu (√2) and leaky_relu. It does not for tanh (1.5925;
    torch: 5/3) and sigmoid (1.8463; torch: 1): torch returns customary constants there, not this
    integral.

    Raises:
        ValueError: f is zero, or not finite, on N(0, 1).
    """
    probe = copy.deepcopy(module).to("cpu", torch.float64).eval()
    x = torch.linspace(-12, 12, 24_001, dtype=torch.float64)
    weight = torch.exp(-x.square() / 2)
    with torch.no_grad():
        moment = float((weight * probe(x).square()).sum() / weight.sum())
    if not 0 < moment < math.inf:
        raise ValueError(f"{module} has no gain: E[f(x)²] over N(0, 1) is {moment}")
    return 1 / math.sqrt(moment)


class Swish(nn.Module):
    """f(x) = x·σ(βx) (Ramachandran et al. 2017). Slope from −0.0998 to 1.0998, any β ≠ 0; floor 0."""

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        self.beta = _finite("swish", beta=beta)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.beta * x)

    def extra_repr(self) -> str:
        return f"beta={self.beta}"


class SmoothLeaky(nn.Module):
    """f(x) = αx + (1 − α)·x·σ(cx/p) (paper 002, eq. 1); defaults of its Figure 5.

    αx far to the left, x far to the right; c/p sets how sharply one becomes the other.

    Derivative floor: min(1.0998α − 0.0998, 1.0998 − 0.0998α) where that is positive, i.e. for
    0.0908 < α < 11.02, else 0; c and p do not matter, since the slope of z·σ(z) spans [−0.0998, 1.0998].
    The paper takes α itself for the floor, but left of 0 the slope dips below its limit α: at α = 0.1 it
    falls to 0.0101, and for smaller α it crosses zero.
    """

    def __init__(self, alpha: float = 0.1, c: float = 5.0, p: float = 3.0) -> None:
        super().__init__()
        self.alpha = _finite("smooth_leaky", alpha=alpha)
        self.c = _positive("smooth_leaky", c=c)
        self.p = _positive("smooth_leaky", p=p)

    def forward(self, x: Tensor) -> Tensor:
        return _smooth_leaky(x, self.alpha, self.c / self.p)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}, c={self.c}, p={self.p}"


class RandSmoothLeaky(nn.Module):
    """f(x) = rx + (1 − r)·x·σ(cx/p), r ~ U(lower, upper) (paper 002, eq. 2).

    In training one r is drawn for each forward pass, the same for the whole tensor, from torch's global
    generator of the input's device; in eval mode r = (lower + upper)/2. So the paper's eq. 2 and Section
    5.1; its Table B1 says "per element", which would be another function (that of rrelu, smoothed).
    Defaults: Table E2, Permuted MNIST. Derivative floor: that of `SmoothLeaky` at the worst r in range.
    """

    def __init__(self, lower: float = 0.3, upper: float = 0.6, c: float = 0.8, p: float = 1.0) -> None:
        super().__init__()
        self.lower, self.upper = _ordered("rand_smooth_leaky", lower, upper)
        self.c = _positive("rand_smooth_leaky", c=c)
        self.p = _positive("rand_smooth_leaky", p=p)

    def forward(self, x: Tensor) -> Tensor:
        slope: Tensor | float = (self.lower + self.upper) / 2
        if self.training:
            draw = torch.rand((), device=x.device, dtype=x.dtype)
            slope = self.lower + (self.upper - self.lower) * draw
        return _smooth_leaky(x, slope, self.c / self.p)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}, c={self.c}, p={self.p}"


activations.register("swish")(Swish)
activations.register("smooth_leaky")(SmoothLeaky)
activations.register("rand_smooth_leaky")(RandSmoothLeaky)


@activations.register("relu")
def relu() -> nn.Module:
    """f(x) = max(x, 0). Derivative floor 0: no gradient at all for x < 0."""
    return nn.ReLU()


@activations.register("leaky_relu")
def leaky_relu(negative_slope: float = 0.01) -> nn.Module:
    """f(x) = x for x ≥ 0, negative_slope·x below (Maas et al. 2013). Floor min(1, |negative_slope|)."""
    return nn.LeakyReLU(_finite("leaky_relu", negative_slope=negative_slope))


@activations.register("prelu")
def prelu(init: float = 0.25, granularity: Literal["layer"] = "layer") -> nn.Module:
    """leaky_relu with a learned slope that starts at `init` (He et al. 2015).

    One parameter for each activation module: the granularity that paper 002 calls `layer`. The floor is
    min(1, |slope|), and nothing keeps the slope from drifting to 0.
    """
    return nn.PReLU(init=_finite("prelu", init=init))


@activations.register("rrelu")
def rrelu(lower: float = 0.125, upper: float = 1 / 3) -> nn.Module:
    """leaky_relu with a slope ~ U(lower, upper) for each element (Xu et al. 2015), its mean in eval mode.

    Defaults as in torch and in paper 002, Table B2. Floor min(1, lower) for lower ≥ 0.
    """
    return nn.RReLU(*_ordered("rrelu", lower, upper))


@activations.register("elu")
def elu(alpha: float = 1.0) -> nn.Module:
    """f(x) = x for x > 0, α(eˣ − 1) below, α > 0 (Clevert et al. 2015). Floor 0, in the left tail."""
    return nn.ELU(_positive("elu", alpha=alpha))


@activations.register("gelu")
def gelu() -> nn.Module:
    """f(x) = x·Φ(x), exact (Hendrycks & Gimpel 2016). Slope from −0.1289 to 1.1289; floor 0."""
    return nn.GELU()


@activations.register("tanh")
def tanh() -> nn.Module:
    """f(x) = tanh x. Floor 0, in both tails."""
    return nn.Tanh()


@activations.register("sigmoid")
def sigmoid() -> nn.Module:
    """f(x) = 1/(1 + e⁻ˣ). Slope at most 1/4; floor 0, in both tails."""
    return nn.Sigmoid()


def _smooth_leaky(x: Tensor, slope: Tensor | float, sharpness: float) -> Tensor:
    return slope * x + (1 - slope) * x * torch.sigmoid(sharpness * x)


def _finite(where: str, **param: float) -> float:
    [(name, value)] = param.items()
    if not math.isfinite(value):
        raise ValueError(f"{where}: {name} must be finite, not {value}")
    return value


def _positive(where: str, **param: float) -> float:
    [(name, value)] = param.items()
    if not 0 < value < math.inf:
        raise ValueError(f"{where}: {name} must be positive and finite, not {value}")
    return value


def _ordered(where: str, lower: float, upper: float) -> tuple[float, float]:
    _finite(where, lower=lower)
    _finite(where, upper=upper)
    if lower > upper:
        raise ValueError(f"{where}: lower must not exceed upper, but {lower} > {upper}")
    return lower, upper
