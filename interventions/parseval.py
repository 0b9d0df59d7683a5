"""Parseval regularisation keeps the rows of every weight matrix nearly orthogonal.

    L ← L + λ·Σ ‖WWᵀ − sI‖²_F   over weight matrices; a kernel is the matrix (C_out, C_in·k_h·k_w)

Rows are pulled to norm √s. FIRE does this at one moment, this penalty throughout training (FIRE paper, Appendix D). If
d_out > d_in, WWᵀ has rank d_in at most and cannot be sI. The term is then at least s²·(d_out − d_in), which it reaches
if the *columns* are orthogonal with norm √s, so it asks for an isometry in this case, too. Since ‖WWᵀ − sI‖² =
‖WᵀW − sI‖² + s²·(d_out − d_in), the smaller product is computed.

Source: Chung et al. 2024, "Parseval regularization for continual reinforcement learning" (arXiv 2412.07224). They leave
out the last layer (`scope=[encoder,hidden]`). The FIRE paper includes the weight matrices of all layers, as does the
default.

Resets: nothing.

Cost: two products of the size min(d_out, d_in)² × max(d_out, d_in) for each matrix and update.

Released code: FIRE's also pulls the gains of layer normalisation to ±1. Biases and normalisation layers are unchanged
here, as in the equation. The code of Chung et al. (wechu/parseval_reg, parseval_reg/agent.py) has s = 2, the square of
the gain of its orthogonal initialisation, and multiplies λ by (64/width)²: its strength of 1e-3 is, at width 128,
`parseval(strength=2.5e-4,s=2,scope=[encoder,hidden])`. Here s = 1 as in FIRE's code, which shortens the rows of PPO's
default initialisation (gain √2) from the first update on.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from supple.networks import Learner
from supple.networks.layers import Scope, require_trained, trained_kernels

from .base import Intervention, check_within, interventions


def parseval_penalty(weight: Tensor, s: float = 1.0) -> Tensor:
    """Return ‖WWᵀ − sI‖²_F of a matrix (d_out, d_in), or of each in a batch: (…, d_out, d_in) → (…).

    The result can be differentiated once.
    """
    distance: Tensor = _Distance.apply(weight, s)
    return distance + s**2 * max(weight.shape[-2] - weight.shape[-1], 0)


def distance_gradient(weight: Tensor) -> Tensor:
    """Return the gradient of `parseval_penalty` at s = 1, 4·(WWᵀ − I)·W: (…, d_out, d_in)."""
    return _times(weight, _excess(weight, 1.0)).mul_(4)


def _excess(weight: Tensor, s: float) -> Tensor:
    """Return WWᵀ − sI, or WᵀW − sI if that is smaller."""
    product = weight.mT @ weight if weight.shape[-2] > weight.shape[-1] else weight @ weight.mT
    product.diagonal(dim1=-2, dim2=-1).sub_(s)
    return product


def _times(weight: Tensor, excess: Tensor) -> Tensor:
    return weight @ excess if weight.shape[-2] > weight.shape[-1] else excess @ weight


class _Distance(torch.autograd.Function):
    """‖WWᵀ − sI‖²_F, or ‖WᵀW − sI‖²_F if that is smaller.

    Its gradient 4·(WWᵀ − sI)·W is one product. Autograd would compute it twice, once for each W of WWᵀ.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, s: float) -> Tensor:
        excess = _excess(weight, s)
        ctx.save_for_backward(weight, excess)
        return excess.square().sum((-2, -1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None]:
        weight, excess = ctx.saved_tensors
        return _times(weight, excess).mul_(4 * outer[..., None, None]), None


@interventions.register("parseval")
class Parseval(Intervention):
    """Penalise Σ‖WWᵀ − sI‖²_F of the trained Linear and convolution weights in the scope (Chung et al. 2024).

    Args:
        strength: λ ≥ 0; the FIRE paper sweeps 1e-3, 1e-4, 1e-5 (Appendix D).
        s: Squared length of a row, > 0.
        scope: The layers whose weights count.
    """

    def __init__(self, strength: float = 1e-3, s: float = 1.0, scope: Scope = "all") -> None:
        check_within("parseval", strength=(strength, "[0, ∞)"), s=(s, "(0, ∞)"))
        self.strength, self.s, self.scope = strength, s, scope

    def attach(self, learner: Learner) -> None:
        require_trained(learner.select(self.scope), f"parseval: no layer of '{learner.name}' in the scope")

    def penalty(self, learner: Learner) -> Tensor:
        terms = [
            parseval_penalty(layer.matrices(kernel), self.s).sum()
            for kernel, layer in trained_kernels(learner.select(self.scope)).items()
        ]
        return self.strength * torch.stack(terms).sum()
