"""Rational activations: a quotient of polynomials with learned coefficients (Molina et al. 2020; Delfosse et al. 2021).

    A  P(x) / (1 + Σ_{j≥1} |b_j x^j|)         B  P(x) / (1 + |Σ_{j≥1} b_j x^j|)
    C  P(x) / (0.1 + |Σ_{j≥0} b_j x^j|)       D  B with noise: in training each coefficient times 1 + U(−0.1, 0.1)

No denominator comes near 0. The versions and the noise are those of the authors' package, ml-research/
rational_activations; its CUDA kernel and its Keras code noise all coefficients of D, for each input by itself, its
PyTorch function (rational/torch/rational_pytorch_functions.py, which a CPU uses) those of P alone, once for all inputs.
Here, all of them, once for all inputs. The starting coefficients are ours, by least squares on [−3, 3].
"""

from collections.abc import Callable
from functools import cache
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import RandomActivation, Shared, activations

Version = Literal["A", "B", "C", "D"]
Start = Literal["relu", "leaky_relu", "swish", "tanh", "sigmoid"]
STARTS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "leaky_relu": F.leaky_relu,
    "swish": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}
NOISE = 0.1  # of version D, relative
SAFE = 0.1  # least denominator of version C


@activations.register("rational")
class Rational(RandomActivation):
    """P(x)/Q(x) with learned coefficients (Delfosse et al. 2021), one pair of polynomials for each layer.

    Defaults: Lillo & Cheney, Table E2, Permuted MNIST. Learned coefficients guarantee no derivative floor. Powers
    overflow in float32 for |x| > 10⁷ at degrees (5, 4), and > 3·10⁵ at (7, 6).

    Args:
        version: The version of the denominator, A to D. D multiplies its coefficients by noise in training.
        degrees: The degrees of P and Q, 1 to 10 each.
        start: The function that it approximates at initialisation, on [−3, 3]; leaky_relu has the slope 0.01 there.
    """

    def __init__(self, version: Version = "A", degrees: tuple[int, ...] = (5, 4), start: Start = "leaky_relu") -> None:
        super().__init__()
        if len(degrees) != 2 or not all(1 <= degree <= 10 for degree in degrees):
            raise ValueError(f"rational: degrees must be two numbers from 1 to 10, those of P and Q, got {degrees}")
        self.version, self.degrees, self.start = version, degrees, start
        numerator, denominator = fit(version, degrees[0], degrees[1], start)
        self.numerator = nn.Parameter(torch.tensor(numerator))
        self.denominator = nn.Parameter(torch.tensor(denominator))

    def configure(self, width: int | None, axis: int, members: int, shared: Shared) -> None:
        super().configure(width, axis, members, shared)
        if members:
            self.numerator = nn.Parameter(self.numerator.detach().repeat(members, 1))
            self.denominator = nn.Parameter(self.denominator.detach().repeat(members, 1))

    def forward(self, x: Tensor) -> Tensor:
        p: Tensor = self.numerator
        q: Tensor = self.denominator
        if self.version == "D" and self.training:
            noise = 1 + NOISE * (2 * self.draw(x, (p.shape[-1] + q.shape[-1],)) - 1)
            p, q = p * noise[..., : p.shape[-1]], q * noise[..., p.shape[-1] :]
        above, below = ([self.along(c[..., None], x) for c in both.unbind(-1)] for both in (p, q))
        if self.version == "A":
            return _polynomial(x, above) / (1 + x.abs() * _polynomial(x.abs(), [b.abs() for b in below]))
        if self.version == "C":
            return _polynomial(x, above) / (SAFE + _polynomial(x, below).abs())
        return _polynomial(x, above) / (1 + (x * _polynomial(x, below)).abs())


def _polynomial(x: Tensor, coefficients: list[Tensor]) -> Tensor:
    """c₀ + c₁x + c₂x² + …, by Horner's rule."""
    *lower, value = coefficients
    for coefficient in reversed(lower):
        value = torch.addcmul(coefficient, value, x)
    return value


@cache
def fit(version: Version, above: int, below: int, start: Start) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return coefficients (a₀ …), (b₁ …; for C b₀ …) of least squared error to a function on 601 points of [−3, 3].

    This is Levenberg–Marquardt in float64 from three fixed starts, of which the best result is returned. On one
    machine, the result is always the same bit for bit.

    Args:
        version: The version of the denominator.
        above: The degree of the numerator, 1 to 10.
        below: The degree of the denominator, 1 to 10.
        start: The function that is approximated.
    """
    x = torch.linspace(-3, 3, 601, dtype=torch.float64)
    target = STARTS[start](x)
    lowest = 0 if version == "C" else 1
    powers = torch.stack([x**j for j in range(above + 1)], 1)
    below_powers = torch.stack([(x.abs() if version == "A" else x) ** j for j in range(lowest, below + 1)], 1)
    constant = SAFE if version == "C" else 1.0

    def denominator(b: Tensor) -> tuple[Tensor, Tensor]:
        """Q and its derivatives by each b."""
        if version == "A":
            return constant + below_powers @ b.abs(), below_powers * b.sign()
        folded = below_powers @ b
        return constant + folded.abs(), below_powers * folded.sign()[:, None]

    def residual(at: Tensor) -> tuple[Tensor, Tensor]:
        """R − target and its Jacobian."""
        a, b = at[: above + 1], at[above + 1 :]
        q, by_b = denominator(b)
        r = powers @ a / q
        return r - target, torch.cat([powers / q[:, None], -(r / q)[:, None] * by_b], 1)

    def end(scale: float) -> tuple[float, Tensor]:
        # even powers, which keep Σ b_j x^j away from the zeros at which its absolute value would fold it
        b = scale * torch.tensor([float(j % 2 == 0) + 0.1 for j in range(lowest, below + 1)], dtype=torch.float64)
        # normal equations: LAPACK's least squares differ in the last bits from call to call, and LM enlarges that
        basis = powers / denominator(b)[0][:, None]
        a = torch.linalg.solve(basis.T @ basis, basis.T @ target)
        return _levenberg_marquardt(residual, torch.cat([a, b]))

    _, best = min((end(scale) for scale in (0.03, 0.3, 1.0)), key=lambda found: found[0])
    return tuple(best[: above + 1].tolist()), tuple(best[above + 1 :].tolist())


def _levenberg_marquardt(residual: Callable[[Tensor], tuple[Tensor, Tensor]], at: Tensor) -> tuple[float, Tensor]:
    """Sum of squares and place of a local minimum of ‖residual‖²; `residual` gives the Jacobian too."""
    damping, (r, jacobian) = 1e-3, residual(at)
    for _ in range(200):
        normal = jacobian.T @ jacobian
        step = torch.linalg.solve(normal + damping * torch.diag(normal.diagonal() + 1e-12), jacobian.T @ r)
        trial = residual(at - step)
        if trial[0].square().sum() < r.square().sum():
            at, (r, jacobian), damping = at - step, trial, max(damping / 5, 1e-12)
        else:
            damping *= 5
    return float(r.square().sum()), at
