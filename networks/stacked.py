"""Layers of several networks of one shape, side by side in one tensor.

The critics of SAC are trained together. As one stack they need one batched product where separate modules need two, and
FIRE orthogonalizes them as one batch. Interventions and metrics treat every member as a network of its own.
"""

from typing import Any

import torch
from torch import Tensor, nn


def fit(values: Tensor, like: Tensor) -> Tensor:
    """Return one value for each network, () or (members,), in a shape that broadcasts to a tensor of all networks."""
    return values.view(*values.shape, *[1] * (like.ndim - values.ndim))


def _draw_members_(weight: Tensor, bias: Tensor | None) -> None:
    """Draw the members one after the other, as `nn.Linear` and `nn.Conv2d` do."""
    bound = weight[0, 0].numel() ** -0.5  # for weights and biases alike
    for member in range(len(weight)):
        nn.init.uniform_(weight[member], -bound, bound)
        if bias is not None:
            nn.init.uniform_(bias[member], -bound, bound)


class StackedLinear(nn.Module):
    """`members` Linear layers: weight (members, d_out, d_in), bias (members, d_out) or None.

    Every member has its own weights, drawn as by `nn.Linear`, one member after the other: from one seed, the members
    are equal to successive `nn.Linear` layers.
    """

    def __init__(self, members: int, d_in: int, d_out: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(members, d_out, d_in))
        self.bias = nn.Parameter(torch.empty(members, d_out)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        _draw_members_(self.weight, self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return inputs of each member (members, n, d_in), or one input for all (n, d_in) → (members, n, d_out)."""
        x = x.expand(len(self.weight), -1, -1)
        if torch.is_autocast_enabled(x.device.type):  # which does not look into a function of ours
            return _affine(x, self.weight, self.bias)
        return _Affine.apply(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        members, d_out, d_in = self.weight.shape
        return f"members={members}, in_features={d_in}, out_features={d_out}"


class StackedConv2d(nn.Module):
    """Conv2d layers: weight (members, c_out, c_in, kh, kw), bias (members, c_out).

    They are drawn as by `nn.Conv2d`, one member after the other.

    Args:
        members: Number of layers.
        c_in: Number of input channels of each.
        c_out: Number of output channels of each.
        kernel_size: Height and width of the kernels.
        padding: Zeros added on each side of the images.
        stride: Pixels between neighbouring positions of the kernel.
    """

    def __init__(
        self, members: int, c_in: int, c_out: int, kernel_size: int, padding: int = 0, stride: int = 1
    ) -> None:
        super().__init__()
        self.padding, self.stride = padding, stride
        self.weight = nn.Parameter(torch.empty(members, c_out, c_in, kernel_size, kernel_size))
        self.bias = nn.Parameter(torch.empty(members, c_out))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        _draw_members_(self.weight, self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return (members, n, c_out, …) for images (members, n, c_in, h, w), or (n, c_in, h, w) for all members."""
        x = x.expand(len(self.weight), -1, -1, -1, -1)
        grouped = x.transpose(0, 1).flatten(1, 2)  # (n, members · c_in, h, w): a member is a group
        weight, bias = self.weight.flatten(0, 1), self.bias.flatten()
        out = nn.functional.conv2d(grouped, weight, bias, self.stride, self.padding, groups=len(self.weight))
        return out.unflatten(1, self.weight.shape[:2]).transpose(0, 1)

    def extra_repr(self) -> str:
        members, c_out, c_in, *kernel = self.weight.shape
        shape = f"members={members}, {c_in}, {c_out}, kernel_size={tuple(kernel)}"
        return f"{shape}, padding={self.padding}, stride={self.stride}"


class StackedMaxPool2d(nn.MaxPool2d):
    """Max pooling of images that have the members as their first axis: (members, n, c, h, w)."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(0, 1)).unflatten(0, x.shape[:2])


def _affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.bmm(x, weight.mT) if bias is None else torch.baddbmm(bias[:, None], x, weight.mT)


class _Affine(torch.autograd.Function):
    """x·Wᵀ + b for a stack. PyTorch's own gradient of `baddbmm` comes transposed in memory, and accumulating it
    then takes a sixth of the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _affine(x, weight, bias)

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
