"""The gradients of a loss, as one function that can be compiled."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def differentiate(
    loss: Callable[..., tuple[Tensor, Tensor]], parameters: Sequence[Tensor], *inputs: Any
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Return the loss and the constant that `loss(*inputs)` returns, (*stack,), and the gradients of the loss.

    In a stack, they are those of the sum over the members, of which each has its own parameters. Gradients have the
    memory layout of their parameters, which fused optimizers ask for without checking it."""
    value, constant = loss(*inputs)
    gradients = torch.autograd.grad(value, parameters, torch.ones_like(value))
    laid_out = [
        gradient if gradient.stride() == parameter.stride() else torch.empty_like(parameter).copy_(gradient)
        for gradient, parameter in zip(gradients, parameters, strict=True)
    ]
    return value.detach(), constant, laid_out
