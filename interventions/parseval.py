"""Parseval regularisation (Chung et al. 2024, "Parseval regularization for continual reinforcement learning").

    L ← L + λ·Σ ‖WWᵀ − sI‖²_F   over weight matrices; a kernel is the matrix (C_out, C_in·k_h·k_w)

keeps the rows of every matrix near orthogonal, with norm √s: what FIRE does at one moment, all through training (FIRE
paper, Appendix D). Where d_out > d_in, WWᵀ has rank d_in at most and cannot be sI: the term is then at least s²·(d_out
− d_in), and it is that where the *columns* are orthogonal with norm √s, so isometry is what is asked for there too. It
holds that ‖WWᵀ − sI‖² = ‖WᵀW − sI‖² + s²·(d_out − d_in), and the smaller product is the one that is computed.

It resets nothing. Biases and normalisation layers are left alone, as in the equation (code released with FIRE also
pulls the gains of layer normalisation to ±1). Chung et al. spare the last layer: `scope=[encoder,hidden]`; the FIRE
paper names the weight matrices of all layers, and so does the default. Cost: two products of the size of min(d_out,
d_in)² × max(d_out, d_in) for each matrix and update.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..networks.layers import Scope
from ..networks.learner import Learner
from ..networks.wiring import STACKED
from .base import Intervention, interventions


def parseval_penalty(weight: Tensor, s: float = 1.0) -> Tensor:
    """Return ‖WWᵀ − sI‖²_F of a matrix (d_out, d_in), or of each in a batch (…, d_out, d_in): (…). It can be
    differentiated once."""
    distance: Tensor = _Distance.apply(weight, s)
    return distance + s**2 * max(weight.shape[-2] - weight.shape[-1], 0)


class _Distance(torch.autograd.Function):
    """‖WWᵀ − sI‖²_F, or ‖WᵀW − sI‖²_F where that is smaller. Its gradient 4·(WWᵀ − sI)·W is one product, where autograd
    takes one for either W of WWᵀ, which are the same."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, s: float) -> Tensor:
        excess = weight.mT @ weight if weight.shape[-2] > weight.shape[-1] else weight @ weight.mT
        excess.diagonal(dim1=-2, dim2=-1).sub_(s)
        ctx.save_for_backward(weight, excess)
        return excess.square().sum((-2, -1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None]:
        weight, excess = ctx.saved_tensors
        product = weight @ excess if weight.shape[-2] > weight.shape[-1] else excess @ weight
        return product.mul_(4 * outer[..., None, None]), None


@interventions.register("parseval")
class Parseval(Intervention):
    """Penalty strength·Σ‖WWᵀ − sI‖²_F on the scope's weights (Chung et al. 2024).

    strength: λ ≥ 0; the FIRE paper sweeps 1e-3, 1e-4, 1e-5 (Appendix D). s: squared length of a row, > 0.
    """

    def __init__(self, strength: float = 1e-3, s: float = 1.0, scope: Scope = "all") -> None:
        if not 0.0 <= strength < float("inf"):
            raise ValueError(f"parseval: strength must be finite and ≥ 0, got {strength}")
        if not 0.0 < s < float("inf"):
            raise ValueError(f"parseval: s must be finite and > 0, got {s}")
        self.strength, self.s, self.scope = strength, s, scope

    def attach(self, learner: Learner) -> None:
        learner.select(self.scope)

    def penalty(self, learner: Learner) -> Tensor:
        layers = {layer.weight: layer for layer in learner.select(self.scope)}  # a tied weight counts once
        terms = [
            parseval_penalty(weight.flatten(2 if isinstance(layer.module, STACKED) else 1), self.s).sum()
            for weight, layer in layers.items()
        ]
        return self.strength * torch.stack(terms).sum()
