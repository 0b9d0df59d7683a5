"""The derivative of any activation, and one of its units as a curve."""

import copy
import math

import torch
from torch import Tensor, nn

from ..recording import evaluating
from .base import Activation

SATURATED = 1e-3  # |φ′| below which a unit is saturated (Lillo & Cheney, Section 4)


def derivative(module: nn.Module, pre_activation: Tensor) -> Tensor:
    """Return φ′ at every pre-activation, of the same shape, in evaluation mode (a random slope at its mean).

    module: any activation, in a network or not; for a stack with all its members at once. If a pre-activation gives two
    features (crelu, deep_fourier), the result is the norm of both derivatives, by which a gradient through them is
    scaled. For swiglu it has the derivatives by gate and by value. A unit is saturated if |φ′| < `SATURATED`, for all
    families. (The paper's Appendix C.3 has a criterion for each family, with thresholds in code that is not public.) φ′
    is found by autograd. Nothing is drawn, no hook is called, and `.grad` is unchanged.
    """
    slopes = _slopes(module, pre_activation)
    return slopes[0] if len(slopes) == 1 else torch.stack(slopes).norm(dim=0)


def _slopes(module: nn.Module, x: Tensor) -> list[Tensor]:
    """Return the derivatives of each pre-activation's features, one after the other."""
    x = x.detach().requires_grad_()
    with evaluating(module), torch.enable_grad():
        y = module.forward(x.clone())  # a copy: some activations work in place
        axis = next((a for a in range(x.dim()) if y.shape[a] != x.shape[a]), -1)
        parts = y.chunk(max(1, y.shape[axis] // x.shape[axis]), axis)
        return [torch.autograd.grad(part.sum(), x, retain_graph=True)[0] for part in parts]


class Curve:
    """One unit of an activation as a function of its pre-activation: (n,) → (features, n), float64, evaluation mode."""

    def __init__(self, module: nn.Module) -> None:
        if isinstance(module, Activation):
            self.module: nn.Module = module.alone()
        else:
            self.module = copy.deepcopy(module).to("cpu", torch.float64).eval()

    def inputs(self, x: Tensor) -> Tensor:
        return self.module.inputs(x) if isinstance(self.module, Activation) else x[:, None]

    @torch.no_grad()
    def values(self, x: Tensor) -> Tensor:
        return self.module(self.inputs(x)).T

    def slopes(self, x: Tensor) -> Tensor:
        return torch.stack([slope[:, 0] for slope in _slopes(self.module, self.inputs(x))])

    def size(self, x: Tensor) -> Tensor:
        """Return |φ′|, (n,): of two features the norm of both derivatives."""
        return self.slopes(x).norm(dim=0)


def normal(scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return nodes and weights of the trapezoidal rule for expectations over N(0, scale²), on ±12 standard deviations.

    A grid with a node at 0 suits functions with a kink there, on which Gauss–Hermite converges slowly; on smooth
    ones the rule is exact to rounding, since the integrand vanishes at both ends.
    """
    x = torch.linspace(-12, 12, 24_001, dtype=torch.float64)
    weights = torch.exp(-x.square() / 2)
    return scale * x, weights / weights.sum()


def initial_gain(module: nn.Module) -> float:
    """Return the gain g of He et al. (2015) for any activation f: g = 1/√E[f(x)²], x ~ N(0, 1).

    Weights drawn with variance g²/fan_in after this activation give pre-activations with the variance of those before
    it, if these were standard normal; fan_in counts features, and E is a mean over the features where a pre-activation
    becomes two of them (crelu, deep_fourier: √2). E is taken over f in eval mode (a randomised slope at its mean, a
    learned one at its present value, averaged over the units), in float64.

    It equals `torch.nn.init.calculate_gain` for relu (√2) and leaky_relu. It does not for tanh (1.5925; torch: 5/3)
    and sigmoid (1.8463; torch: 1): torch returns customary constants there, not this integral.

    Raises:
        ValueError: f is zero, or not finite, on N(0, 1).
    """
    x, weights = normal()
    moment = float((weights * Curve(module).values(x).square().mean(0)).sum())
    if not 0 < moment < math.inf:
        raise ValueError(f"{module} has no gain: E[f(x)²] over N(0, 1) is {moment}")
    return 1 / math.sqrt(moment)
