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

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .stacked import StackedLayerNorm, StackedLinear

Normalization = Literal["none", "layer", "spectral"]

SMALLEST = 1e-12  # of σ: the input of a weight of zeros is divided by it


def hidden_linear(
    d_in: int, d_out: int, normalization: Normalization = "none", members: int = 0
) -> nn.Linear | StackedLinear:
    """Return the linear layer of hidden units, or those of several networks as one, with PyTorch's initial values.

    Args:
        d_in: Number of inputs.
        d_out: Number of outputs.
        normalization: The name of the normalization.
        members: Number of networks in the stack; 0 if there is no stack.
    """
    if members:
        return (StackedSpectralLinear if normalization == "spectral" else StackedLinear)(members, d_in, d_out)
    return (SpectralLinear if normalization == "spectral" else nn.Linear)(d_in, d_out)


def hidden_norm(width: int, normalization: Normalization = "none", members: int = 0) -> list[nn.Module]:
    """Return the modules between a linear layer of `width` outputs and its activation: a layer norm or none.

    Args:
        width: Number of outputs of the linear layer.
        normalization: As in `hidden_linear`.
        members: Number of networks in the stack; 0 if there is no stack.
    """
    if normalization != "layer":
        return []
    return [StackedLayerNorm(members, width) if members else nn.LayerNorm(width)]


class _Spectral(nn.Module):
    """What divides the weights of a layer by their largest singular values, with the estimates as a buffer."""

    weight: Any
    u: Tensor

    def __init__(self, *sizes: Any, **more: Any) -> None:
        super().__init__(*sizes, **more)
        self.register_buffer("u", _start(self.weight))

    def forward(self, x: Tensor) -> Tensor:
        sigma = largest_singular_value(self, self.weight, self.u)
        return super().forward(x / (sigma if sigma.ndim > 2 else sigma.squeeze()))

    def reset_running_stats(self) -> None:
        """Reset the estimates. `reset` calls this for everything that is not a parameter."""
        self.u.copy_(_start(self.weight))


class SpectralLinear(_Spectral, nn.Linear):
    """A Linear layer that computes W·x/σ(W) + b. `weight` is W, which is trained and which interventions rewrite.

    Each forward pass estimates σ by one step of power iteration from `u`, the current estimate of the left singular
    vector:

        v = Wᵀu/‖Wᵀu‖,   u′ = W·v/‖W·v‖,   σ = u′ᵀ·W·v          (Miyato et al., Algorithm 1; gradients through σ alone)

    Only a pass that trains the layer (training mode, gradients enabled, W not frozen) stores u′ in u. Passes for
    acting, for measurements, of target networks and of frozen copies do not change it. `u` is a buffer, so checkpoints
    contain it. The estimate never exceeds σ, so the largest singular value of the map is 1 or slightly more: at most
    about 1.4 for a fresh draw, for which u is still arbitrary, and nearer to 1 after each update.
    """


class StackedSpectralLinear(_Spectral, StackedLinear):
    """`SpectralLinear` for several networks: W (members, d_out, d_in), each with its own σ, and u (members, d_out)."""


def largest_singular_value(layer: nn.Module, weight: Tensor, u: Tensor) -> Tensor:
    """Return the estimate of σ, (…, 1, 1), for weights (…, d_out, d_in) and their left singular vectors, (…, d_out).

    The vectors are updated in place if `layer` is being trained.
    """
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
