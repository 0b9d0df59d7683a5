"""The properties in Lillo & Cheney's Tables A1 and G1, and the numbers of their Sections 3 and 4, computed."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from .base import RandomActivation
from .slopes import SATURATED, Curve, normal

TAIL = 100.0  # pre-activations of ±100 are the range of the dead band (Lillo & Cheney, Section 4)
Ends = Literal["none", "negative", "positive", "two-sided"]
ENDS: dict[tuple[bool, bool], Ends] = {
    (False, False): "none",
    (True, False): "negative",
    (False, True): "positive",
    (True, True): "two-sided",
}


@dataclass(frozen=True)
class Properties:
    """The values that `properties` computes, with the columns of Lillo & Cheney's Tables A1 and G1 in brackets.

    For a unit with two features (crelu, deep_fourier), |φ′| is the norm of both derivatives, as in `derivative`; the
    form (smooth, monotone, dead zone, curved) is that of each feature. swiglu is a function of its gate, at the value
    1.
    """

    floor: float  # inf |φ′| over the real line, limits of the tails included
    negative_slope: float  # s̄ = E[φ′(x) | x < 0], x ~ N(0, 1); of two features with |φ′|
    dead_band: float  # share of [−100, 100] with |φ′| < 1e-3
    saturates: Ends  # |φ′| < 1e-3 in the outer tenth of that range [Sat− with "negative" and "two-sided", Sat±]
    smooth: bool  # φ′ is continuous; else there is a kink [C1]
    monotone: bool  # [not NonM]
    self_normalizing: bool  # mean 0 and variance 1 are a stable fixed point [SelfN]
    dead_zone: bool  # φ′ = 0 on an interval [HDZ]
    passes_negative: bool  # φ′ ≠ 0 for x < 0 [NZG]
    adaptive: bool  # something in it is learned, or random in training [L/R slope]
    curved: bool  # φ″ ≠ 0 on an interval [f″]


def properties(module: nn.Module) -> Properties:
    """Compute the properties of a module in evaluation mode and float64. Learned values are averaged over units.

    s̄ is the mean over the negative half of N(0, 1), for which initial gains are computed; Lillo & Cheney name no
    distribution. Over [−100, 0) it would be the mean of a tail, (φ(0) − φ(−100))/100. φ′ is sampled at intervals of
    10⁻⁴ in [−10, 10], where sign changes and kinks are then located by bisection, at intervals of 10⁻³ up to ±100, and
    further out up to ±10⁶.
    """
    curve = Curve(module)
    # between the round numbers at which functions have their kinks
    fine = (torch.arange(200_000, dtype=torch.float64) + 0.5) * 1e-4 - 10
    middles = (torch.arange(200_000, dtype=torch.float64) + 0.5) * (TAIL / 100_000) - TAIL
    tail = torch.logspace(2, 6, 17, dtype=torch.float64)
    slopes, band = curve.slopes(fine), curve.size(middles)
    far = curve.size(torch.cat([-tail, tail, *_zeros(curve, fine, slopes)]))
    lowest = float(torch.stack([slopes.norm(dim=0).min(), band.min(), far.min()]).min())
    outer = 0.9 * TAIL
    left, right = (bool((band[part] < SATURATED).all()) for part in (middles < -outer, middles > outer))
    near = slopes[:, fine.abs() <= 5]
    monotone = (slopes >= -1e-9).all(1) | (slopes <= 1e-9).all(1)
    return Properties(
        floor=lowest if lowest > 1e-9 else 0.0,
        negative_slope=_negative_slope(curve),
        dead_band=float((band < SATURATED).double().mean()),
        saturates=ENDS[left, right],
        smooth=not any(_has_kink(curve, feature, fine, slopes[feature]) for feature in range(len(slopes))),
        monotone=bool(monotone.all()),
        self_normalizing=_self_normalizing(curve),
        dead_zone=bool(((near == 0).double().mean(1) > 0.01).any()),
        passes_negative=bool((slopes[:, (fine > -5) & (fine < 0)].norm(dim=0) > 0).double().mean() > 0.99),
        adaptive=isinstance(module, RandomActivation | nn.RReLU) or any(p.requires_grad for p in module.parameters()),
        curved=bool(((near.diff().abs() > 1e-12).double().mean(1) > 0.01).any()),
    )


def _zeros(curve: Curve, x: Tensor, slopes: Tensor) -> tuple[Tensor, ...]:
    """Return where φ′ of a single feature changes its sign, bisected: next to a zero, or to either side of a kink."""
    if len(slopes) > 1:
        return ()
    (places,) = (slopes[0, :-1] * slopes[0, 1:] < 0).nonzero(as_tuple=True)
    low, high = x[places], x[places + 1]
    sign = slopes[0, places].sign()
    for _ in range(50):
        middle = (low + high) / 2
        before = curve.slopes(middle)[0] * sign > 0
        low, high = torch.where(before, middle, low), torch.where(before, high, middle)
    return low, high


def _has_kink(curve: Curve, feature: int, x: Tensor, slopes: Tensor) -> bool:
    """Return whether φ′ jumps: of the steepest intervals, the steeper half is kept until only a jump can remain."""
    places = slopes.diff().abs().topk(64).indices
    ends = torch.stack([x[places], x[places + 1]])
    for _ in range(30):
        middle = ends.mean(0)
        a, b, c = curve.slopes(torch.cat([ends[0], middle, ends[1]]))[feature].chunk(3)
        first = (b - a).abs() > (c - b).abs()
        ends = torch.stack([torch.where(first, ends[0], middle), torch.where(first, middle, ends[1])])
    low, high = curve.slopes(ends.flatten())[feature].chunk(2)
    return bool(((high - low).abs() > 1e-7).any())


def _negative_slope(curve: Curve) -> float:
    """Return E[φ′(x) | x < 0] by the midpoint rule on [−12, 0], which needs no derivative at 0."""
    x = (torch.arange(120_000, dtype=torch.float64) + 0.5) * 1e-4 - 12
    weights = torch.exp(-x.square() / 2)
    slopes = curve.slopes(x)
    slope = slopes[0] if len(slopes) == 1 else slopes.norm(dim=0)
    return float((weights * slope).sum() / weights.sum())


def _self_normalizing(curve: Curve) -> bool:
    """Klambauer et al. (2017): of units with weights of sum 0 and squared sum 1, inputs of mean μ and variance ν give
    pre-activations N(0, ν) and outputs of mean E f and variance Var f. (0, 1) is a fixed point of that map where
    E f = 0 and E f² = 1, and a stable one where |d Var f/dν| < 1: μ has no part in it. To within 10⁻³, which the
    rounded bounds of rselu need; f(x) = x, whose derivative is 1, is neither stable nor unstable.
    """

    def moments(variance: float) -> tuple[float, float]:
        x, weights = normal(variance**0.5)
        values = curve.values(x)
        mean, square = (values @ weights).mean(), (values.square() @ weights).mean()
        return float(mean), float(square - mean**2)

    mean, variance = moments(1.0)
    slope = (moments(1.01)[1] - moments(0.99)[1]) / 0.02
    return abs(mean) < 1e-3 and abs(variance - 1) < 1e-3 and abs(slope) < 1 - 1e-3
