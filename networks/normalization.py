"""Normalisation of hidden layers, between a linear layer and its activation, by name.

    none       φ(W·x + b)
    layer      φ(g ⊙ norm(W·x + b) + s)     layer normalisation before the activation (Ba et al. 2016, arXiv:1607.06450)
    spectral   φ(W·x/σ(W) + b)              largest singular value 1 (Miyato et al. 2018, arXiv:1802.05957)

Both are known to help agents to keep learning: layer normalisation before nonlinearities (Lyle et al. 2023,
arXiv:2303.01486), spectral normalisation of hidden layers (Gogianu et al. 2021, arXiv:2105.05246; Bjorck et al. 2021,
arXiv:2106.01151).

Interventions see W as it is stored. Under spectral normalisation its length only affects how much an update turns it.
FIRE makes the map an isometry with singular values of 1, whatever its factor √(d_out/d_in) is, and shrinking towards
zero changes no output. Layer normalisation's gain g and shift s are ordinary parameters: `reset` and `snp` write them,
a reinitialised unit gets new ones (`Wiring.norms`), and FIRE leaves them unchanged.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..registry import did_you_mean
from .stacked import StackedLayerNorm, StackedLinear

Normalization = Literal["none", "layer", "spectral"]

NAMES = ("none", "layer", "spectral")
SMALLEST = 1e-12  # of σ: the input of a weight of zeros is divided by it


def hidden_linear(d_in: int, d_out: int, normalization: Normalization = "none") -> nn.Linear:
    """Return the linear layer of hidden units, with PyTorch's initial values. Raises ValueError for an unknown name."""
    _check(normalization)
    return (SpectralLinear if normalization == "spectral" else nn.Linear)(d_in, d_out)


def stacked_hidden_linear(members: int, d_in: int, d_out: int, normalization: Normalization = "none") -> StackedLinear:
    """Return the linear layers of hidden units of several networks, as `hidden_linear` returns one."""
    _check(normalization)
    return (StackedSpectralLinear if normalization == "spectral" else StackedLinear)(members, d_in, d_out)


def hidden_norm(width: int, normalization: Normalization = "none", members: int = 0) -> list[nn.Module]:
    """Return the modules between a linear layer of `width` outputs and its activation: a layer norm or nothing.

    members: of a stack; 0: not stacked. Raises ValueError for an unknown name.
    """
    _check(normalization)
    if normalization != "layer":
        return []
    return [StackedLayerNorm(members, width) if members else nn.LayerNorm(width)]


def _check(normalization: str) -> None:
    if normalization not in NAMES:
        hint = did_you_mean(normalization, NAMES)
        raise ValueError(f"unknown normalization {normalization!r}{hint} (known: {', '.join(NAMES)})")


class SpectralLinear(nn.Linear):
    """A Linear layer that computes W·x/σ(W) + b; `weight` is the W that is learned and rewritten.

    σ is estimated by one step of power iteration on each forward pass, from `u`, the left singular vector so far:

        v = Wᵀu/‖Wᵀu‖,   u′ = W·v/‖W·v‖,   σ = u′ᵀ·W·v          (Miyato et al., Algorithm 1; gradients through σ alone)

    A pass that trains the layer (training mode, gradients on, W not frozen) writes u′ to u. No other does: acting,
    measuring, the passes of target networks and of frozen copies leave no trace. `u` is a buffer, and so part of every
    state. The estimate never exceeds σ, so the map's largest singular value is 1 or a little more: about 1.4 at most of
    a fresh draw, of which u knows nothing yet, and nearer to 1 with each update.
    """

    u: Tensor

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__(in_features, out_features, bias)
        self.register_buffer("u", _start(self.weight))

    def forward(self, x: Tensor) -> Tensor:
        """Return (…, d_out) of inputs (…, d_in)."""
        return super().forward(x / largest_singular_value(self, self.weight, self.u).squeeze())

    def reset_running_stats(self) -> None:
        """Put the estimate back to its start, as `reset` does with what belongs to no parameter."""
        self.u.copy_(_start(self.weight))


class StackedSpectralLinear(StackedLinear):
    """The same of several networks: W (members, d_out, d_in), each with a σ of its own, and u (members, d_out)."""

    u: Tensor

    def __init__(self, members: int, d_in: int, d_out: int) -> None:
        super().__init__(members, d_in, d_out)
        self.register_buffer("u", _start(self.weight))

    def forward(self, x: Tensor) -> Tensor:
        """Return inputs of each member (members, n, d_in), or one input for all (n, d_in) → (members, n, d_out)."""
        return super().forward(x / largest_singular_value(self, self.weight, self.u))

    def reset_running_stats(self) -> None:
        """Put the estimates back to their start."""
        self.u.copy_(_start(self.weight))


def largest_singular_value(layer: nn.Module, weight: Tensor, u: Tensor) -> Tensor:
    """Return the estimate of σ, (…, 1, 1), of weights (…, d_out, d_in), from their left singular vectors so far,
    (…, d_out), which move where `layer` is being trained."""
    with torch.no_grad():
        v = F.normalize(weight.mT @ u[..., None], dim=-2)
        left = F.normalize(weight @ v, dim=-2)
    if layer.training and torch.is_grad_enabled() and weight.requires_grad:
        u.copy_(left.squeeze(-1))
    return (left.mT @ weight @ v).clamp_min(SMALLEST)


def _start(weight: Tensor) -> Tensor:
    """Return the first left singular vectors, (…, d_out): one direction for all, by a draw that never changes, since
    the first update already moves it to where W is largest."""
    draws = torch.Generator().manual_seed(0)
    u = torch.randn(weight.shape[-2], generator=draws).to(weight)
    return F.normalize(u, dim=0).expand(weight.shape[:-1]).clone()
