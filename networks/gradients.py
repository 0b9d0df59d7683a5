"""The loss of a learner and its gradients, with `.grad` and the mode of the caller left alone."""

from collections.abc import Sequence

import torch
from torch import Tensor

from supple.registry import one_line

from .learner import Learner
from .unchanged import measuring, unchanged


def scalar_loss(learner: Learner) -> Tensor:
    """Return the learner's loss, (). Raises ValueError, in one line, if it is not one number with a gradient."""
    loss = learner.loss()
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        returned = f"a tensor {tuple(loss.shape)}" if isinstance(loss, Tensor) else f"a {type(loss).__name__}"
        raise ValueError(f"the loss= of '{learner.name}' must return one number as a tensor, but returns {returned}")
    if not loss.requires_grad:
        raise ValueError(
            f"the loss= of '{learner.name}' returns a number without a gradient: return it before backward(), "
            "detach() and no_grad()"
        )
    return loss.reshape(())


def loss_gradients(learner: Learner, parameters: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    """Return the gradients of the loss in evaluation mode; None for parameters that it does not reach.

    Raises:
        ValueError: The loss is not one number with a gradient, or autograd refuses; in one line.
    """
    with unchanged(learner.module), measuring(learner.module):
        return differentiate(scalar_loss(learner), parameters, f"the loss of '{learner.name}'")


def differentiate(number: Tensor, parameters: Sequence[Tensor], what: str) -> tuple[Tensor | None, ...]:
    """Return the gradients of a number, each in the shape of its parameter; None for those that it does not reach.

    Args:
        number: The number, ().
        parameters: The tensors by which it is differentiated.
        what: The name of the number in the message of an error.

    Raises:
        ValueError: Autograd refuses.
    """
    try:
        gradients = torch.autograd.grad(number, parameters, allow_unused=True)
    except RuntimeError as error:
        why = one_line(error).partition(". ")[0]
        raise ValueError(f"{what} cannot be differentiated: {why[:200]}") from error
    # those of Embedding(sparse=True), with which Adam and most metrics cannot do anything
    return tuple(g if g is None or g.layout is torch.strided else g.to_dense() for g in gradients)
