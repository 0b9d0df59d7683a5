"""The derivative of any activation, and one of its units as a curve."""

import copy
import math
from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from supple.networks.unchanged import evaluating

from .base import Activation

SATURATED = 1e-3  # |φ′| below which a unit is saturated (Lillo & Cheney, Section 4)


def derivative(module: Callable[[Tensor], Tensor], pre_activation: Tensor) -> Tensor:
    """Return φ′ at every pre-activation, in the same shape and in evaluation mode (a random slope has its mean).

    If a pre-activation has two features (crelu, deep_fourier), the result is the norm of both derivatives, which is the
    factor by which a gradient is scaled. For swiglu, the result has the derivatives with respect to gate and value. A
    unit counts as saturated if |φ′| < `SATURATED`, for all families. (Appendix C.3 of the paper has a criterion for
    each family, with thresholds in code that is not public.) φ′ is computed by autograd. The call draws no random
    numbers, runs no hooks and does not change `.grad`.

    module: any activation, in a network or not; for a stack, with all its members. Or a function such as F.relu.
    """
    slopes = _slopes(module, pre_activation)
    return slopes[0] if len(slopes) == 1 else torch.stack(slopes).norm(dim=0)


def _slopes(module: Callable[[Tensor], Tensor], x: Tensor) -> list[Tensor]:
    """Return the derivatives of each pre-activation's features, one after the other."""
    x = x.detach().requires_grad_()
    function = module.forward if isinstance(module, nn.Module) else module  # without hooks
    with evaluating(module) if isinstance(module, nn.Module) else nullcontext(), torch.enable_grad():
        y = function(x.clone())  # a copy: some activations work in place
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
        values: Tensor = self.module(self.inputs(x))
        return values.T

    def slopes(self, x: Tensor) -> Tensor:
        return torch.stack([slope[:, 0] for slope in _slopes(self.module, self.inputs(x))])

    def size(self, x: Tensor) -> Tensor:
        """Return |φ′|, (n,). With two features it is the norm of both derivatives."""
        return self.slopes(x).norm(dim=0)


def normal(scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return nodes and weights of the trapezoidal rule for expectations over N(0, scale²), on ±12 standard deviations.

    The grid has a node at 0, so it suits functions with a kink there, for which Gauss–Hermite converges slowly. For
    smooth functions the rule is exact up to rounding, because the integrand vanishes at both ends.
    """
    x = torch.linspace(-12, 12, 24_001, dtype=torch.float64)
    weights = torch.exp(-x.square() / 2)
    return scale * x, weights / weights.sum()


def initial_gain(module: nn.Module) -> float:
    """Return the gain g of He et al. (2015) for any activation f: g = 1/√E[f(x)²], x ~ N(0, 1).

    If the weights after this activation are drawn with variance g²/fan_in, the pre-activations of the next layer have
    the same variance as those before the activation, provided that these were standard normal. fan_in counts features.
    If a pre-activation has two features (crelu, deep_fourier: √2), E is the mean over both. f is taken in evaluation
    mode (a random slope has its mean, a learned one its current value averaged over units) and in float64.

    For relu (√2) and leaky_relu, g equals `torch.nn.init.calculate_gain`. For tanh (1.5925; PyTorch: 5/3) and sigmoid
    (1.8463; PyTorch: 1) it does not, because PyTorch returns customary constants there and not this integral.

    Raises:
        ValueError: f is zero, or not finite, on N(0, 1).
    """
    x, weights = normal()
    moment = float((weights * Curve(module).values(x).square().mean(0)).sum())
    if not 0 < moment < math.inf:
        raise ValueError(f"{module} has no gain: E[f(x)²] over N(0, 1) is {moment}")
    return 1 / math.sqrt(moment)
