"""The gradients of a loss, as one function that can be compiled."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from supple.networks.optimizers import match_layout


def differentiate(
    loss: Callable[..., tuple[Tensor, Tensor]], parameters: Sequence[Tensor], *inputs: Any
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Return the loss and the constant that `loss(*inputs)` returns, (*stack,), and the gradients of the loss.

    In a stack, they are those of the sum over the members, of which each has its own parameters. Gradients have the
    memory layout of their parameters (see `match_layout`)."""
    value, constant = loss(*inputs)
    gradients = torch.autograd.grad(value, parameters, torch.ones_like(value))
    laid_out = [match_layout(p, gradient) for p, gradient in zip(parameters, gradients, strict=True)]
    return value.detach(), constant, laid_out
