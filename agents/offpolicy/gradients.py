"""The gradients of a loss, as one function that can be compiled, and a step along them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from supple.engine.hooks.driver import HookDriver
from supple.interventions import Learner
from supple.networks.optimizers import clip_, match_layout, step


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


def take_step(
    learner: Learner, parameters: Sequence[Tensor], gradients: Sequence[Tensor | None], hooks: HookDriver | None = None,
    max_norm: float = 0.0,
) -> None:  # fmt: skip
    """Make a step of a learner's optimizer, with the penalties of its hooks and what they do before and after.

    Args:
        learner: The learner.
        parameters: Those that are trained.
        gradients: Theirs, or None for one that rests.
        hooks: Act on the learner.
        max_norm: The gradient norm of each member above which gradients are clipped. 0: no clipping.
    """
    assert learner.optimizer is not None
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    if hooks and hooks.penalizes and (penalty := hooks.penalty(learner)).requires_grad:
        penalty.backward()
    if max_norm:
        clip_(parameters, max_norm, bool(learner.seeds))
    if hooks:
        hooks.before_update(learner)
    step(learner.optimizer)
    if hooks:
        hooks.after_update(learner)
