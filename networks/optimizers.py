"""The optimizer of a learner, and its step with less overhead than `Optimizer.step` where networks are small."""

import functools
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from .stacked import fit
from .state_dicts import list_names

# Classes of Accelerate and Lightning that wrap another optimizer, whose state and groups theirs are
WRAPPERS = {"AcceleratedOptimizer", "LightningOptimizer", "_FabricOptimizer"}


class OwnOptimizer(torch.optim.Optimizer, ABC):
    """An optimizer of this package, whose arithmetic is a method of its own.

    PyTorch's methods that its compiler must not trace import the compiler, which takes a second. Those that every run
    calls are therefore used without this guard.
    """

    add_param_group = torch.optim.Optimizer.add_param_group.__wrapped__  # type: ignore[attr-defined]
    state_dict = torch.optim.Optimizer.state_dict.__wrapped__  # type: ignore[attr-defined]

    @abstractmethod
    def arithmetic(self) -> None:
        """Make a step along the `.grad` of each parameter that has one, without PyTorch's bookkeeping (see `step`)."""

    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """Make one step along the `.grad` of each parameter that has one."""
        value = None
        if closure is not None:
            with torch.enable_grad():
                value = closure()
        self.arithmetic()
        return value


def match_layout(parameter: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient in the memory format of its parameter, such as channels_last.

    Fused steps go through both entry by entry. In another format, an entry would get the gradient of another one."""
    return gradient if gradient.stride() == parameter.stride() else torch.empty_like(parameter).copy_(gradient)


def step(optimizer: torch.optim.Optimizer) -> None:
    """Make a step of the optimizer, with less overhead if it is one of ours.

    The results are those of `optimizer.step()`. PyTorch's bookkeeping around the arithmetic (marks for profilers,
    hooks, lists by device) takes longer than the arithmetic itself if networks are small. Step hooks need it.
    """
    hooked = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    make_step = None if hooked else getattr(optimizer, "arithmetic", None)  # faster than isinstance of a class of ABC
    (make_step or optimizer.step)()


@torch.no_grad()
def clip_(parameters: Sequence[Tensor], limit: float, stacked: bool) -> None:
    """Scale gradients so that the norm of each network's gradients is at most `limit`.

    Args:
        parameters: The parameters of one network, or those of a stack, (members, …) each.
        limit: The largest norm.
        stacked: Whether they are those of a stack.
    """
    if not stacked:
        torch.nn.utils.clip_grad_norm_(parameters, limit)
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    for gradient, scale in zip(gradients, clip_scales(gradients, limit), strict=True):
        gradient.mul_(scale)


def clip_scales(gradients: Sequence[Tensor], limit: float) -> list[Tensor]:
    """Return the factors, (members, 1, …) for each gradient, with which the norm of each member is at most `limit`."""
    scale = (limit / (norms_by_member(gradients) + 1e-6)).clamp(max=1.0)
    return [fit(scale, gradient) for gradient in gradients]


def norms_by_member(gradients: Sequence[Tensor]) -> Tensor:
    """Return the norm of each member's gradients, (members,), for gradients (members, …).

    The entries of a row are summed first, then those of a member, then tensor after tensor is added. A sum along
    another axis, or a long one that threads share, would be made in an order that depends on the number of members, and
    with it the last bits of a member.
    """
    squares = [gradient.square() for gradient in gradients]
    rows = [square.flatten(2).sum(2) if square.ndim > 2 else square for square in squares]
    return functools.reduce(torch.add, [row.sum(1) for row in rows]).sqrt()


def unwrap_optimizer(optimizer: Any) -> torch.optim.Optimizer:
    """Return the optimizer itself, without the wrappers of Accelerate and Lightning."""
    while any(base.__name__ in WRAPPERS for base in type(optimizer).__mro__):
        optimizer = optimizer.optimizer
    return cast(torch.optim.Optimizer, optimizer)


def trainer_of(module: nn.Module, optimizer: Any, name: str) -> torch.optim.Optimizer | None:
    """Return the optimizer of a network, without wrappers, after a check that it trains this network; None if None.

    An optimizer may hold parameters of other networks as well. It warns if the optimizer does not hold all trained
    parameters of this one, as after a layer was replaced, or if the network has a second optimizer.

    Args:
        module: The network.
        optimizer: Its optimizer, perhaps in a wrapper, or None.
        name: The name of the network in messages.

    Raises:
        ValueError: It is no optimizer, or it holds none of the network's parameters.
    """
    if optimizer is None:
        return None
    optimizer = unwrap_optimizer(optimizer)
    if not hasattr(optimizer, "param_groups"):
        raise ValueError(f"'{name}': optimizer= should be an optimizer, but is a {type(optimizer).__name__}")
    kind = type(optimizer).__name__
    held = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    parameters = dict(module.named_parameters())
    if parameters and held.isdisjoint(parameters.values()):
        raise ValueError(
            f"'{name}': the optimizer ({kind}) holds none of the parameters of this network: give the one that trains "
            f"it, made from its present parameters"
        )
    missing = [parameter for parameter, value in parameters.items() if value.requires_grad and value not in held]
    if missing:
        warnings.warn(
            f"'{name}': the optimizer ({kind}) does not hold {list_names(missing, 1)}: interventions cannot reset the "
            "state of another that trains them; if layers were replaced, make the optimizer afterwards",
            stacklevel=2,
        )
    return optimizer
