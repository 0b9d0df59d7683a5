"""Layers of several networks of one shape, side by side in one tensor.

The critics of SAC are trained together: as one stack they need one batched product where separate modules need
two, and FIRE orthogonalizes them as one batch. To interventions and metrics every member is a network of its own.
"""

from typing import Any

import torch
from torch import Tensor, nn


class StackedLinear(nn.Module):
    """`members` Linear layers: weight (members, d_out, d_in), bias (members, d_out).

    Every member has its own weights, drawn as `nn.Linear` draws them, one member after the other: from one seed, the
    members are the layers that `nn.Linear` would give in turn.
    """

    def __init__(self, members: int, d_in: int, d_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(members, d_out, d_in))
        self.bias = nn.Parameter(torch.empty(members, d_out))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = self.weight.shape[-1] ** -0.5  # nn.Linear's, for weights and biases alike
        for member in range(len(self.weight)):
            nn.init.uniform_(self.weight[member], -bound, bound)
            nn.init.uniform_(self.bias[member], -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """Inputs of each member (members, n, d_in), or one input for all (n, d_in) → (members, n, d_out)."""
        return _Affine.apply(x.expand(len(self.weight), -1, -1), self.weight, self.bias)

    def extra_repr(self) -> str:
        members, d_out, d_in = self.weight.shape
        return f"members={members}, in_features={d_in}, out_features={d_out}"


class _Affine(torch.autograd.Function):
    """x·Wᵀ + b for a stack. PyTorch's own gradient of `baddbmm` comes transposed in memory, and accumulating it
    then takes a sixth of the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.baddbmm(bias[:, None], x, weight.mT)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        return (
            torch.bmm(gradient, weight) if of_x else None,
            torch.bmm(gradient.mT, x) if of_weight else None,
            gradient.sum(1) if of_bias else None,
        )


class StackedLayerNorm(nn.Module):
    """Layer normalisation with a gain and a shift for each member: (members, n, width) → the same."""

    def __init__(self, members: int, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(members, width))
        self.bias = nn.Parameter(torch.zeros(members, width))

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        plain = nn.functional.layer_norm(x, x.shape[-1:], eps=self.eps)
        return torch.addcmul(self.bias[:, None], plain, self.weight[:, None])

    def extra_repr(self) -> str:
        members, width = self.weight.shape
        return f"members={members}, width={width}, eps={self.eps}"
