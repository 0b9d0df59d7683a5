"""Centred RMSprop, for one network or a stack of them."""

from collections.abc import Callable, Iterable
from typing import ClassVar

import torch
from torch import Tensor, nn

from .adam import BLOCK
from .optimizers import OwnOptimizer


class CentredRMSprop(OwnOptimizer):
    """RMSprop with centred squares and momentum (Graves 2013, arXiv 1308.0850, Equations 38 to 45).

        v ← α·v + (1 − α)·g²,   m ← α·m + (1 − α)·g,   b ← μ·b + g/(√(v − m²) + ε),   θ ← θ − η·b

    This is `torch.optim.RMSprop(centered=True)` bit for bit, with two differences. v − m² is 0 where rounding makes it
    negative, as under a constant gradient, whose root would be no number. And it makes few calls for all parameters
    together, without a step counter, which the arithmetic does not need. So a step of a stack, whose parameters have
    the members as their first axis, is that of each member alone: what is left over of a vector of the processor is
    rounded otherwise, and is split by member.

    Args:
        params: The parameters.
        lr: The learning rate η.
        alpha: The decay α of the averages of gradients and of their squares, in [0, 1).
        eps: ε, which is added to the root.
        weight_decay: The weight decay, which is added to the gradient as an L2 penalty.
        momentum: The momentum μ, in [0, 1).
        stacked: Whether the first axis of the parameters is that of the members of a stack.
        compiler: Compiles the arithmetic, which then passes over memory once instead of ten times.
    """

    slot_starts: ClassVar = {"square_avg": 0.0, "grad_avg": 0.0, "momentum_buffer": 0.0}

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float | Tensor, alpha: float = 0.95, eps: float = 0.01,
        weight_decay: float = 0.0, momentum: float = 0.95, stacked: bool = False,
        compiler: Callable[[Callable[..., None]], Callable[..., None]] | None = None,
    ) -> None:  # fmt: skip
        constants = {"alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(params, {"lr": lr, **constants})
        self.stacked, self.compiled = stacked, compiler and compiler(move_)

    @torch.no_grad()
    def arithmetic(self) -> None:
        """Make the step without PyTorch's bookkeeping, as `networks.optimizers.step` does."""
        for group in self.param_groups:
            rows = [(p, p.grad, *self._slots(p)) for p in group["params"] if p.grad is not None]
            if not rows:
                continue
            parts = [part for row in rows for part in self._split(row)]
            rate, constants = group["lr"], [group[name] for name in ("alpha", "eps", "weight_decay", "momentum")]
            if self.compiled:
                self.compiled(torch.as_tensor(rate), *constants, *map(list, zip(*parts, strict=True)))
            else:
                move_(rate, *constants, *map(list, zip(*parts, strict=True)))

    def _slots(self, parameter: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the averages of squares and gradients and the moves of a parameter, which are made if there are none
        yet."""
        slots = self.state[parameter]
        if not slots:
            slots |= {name: torch.zeros_like(parameter) for name in self.slot_starts}
        return slots["square_avg"], slots["grad_avg"], slots["momentum_buffer"]

    def _split(self, row: tuple[Tensor, ...]) -> Iterable[tuple[Tensor, ...]]:
        """Return a parameter, its gradient and slots as they are, or by member if those do not begin with a vector."""
        parameter = row[0]
        if not self.stacked or parameter.numel() // len(parameter) % BLOCK == 0:
            return [row]
        return zip(*(tensor.unbind() for tensor in row), strict=True)


def move_(
    rate: float | Tensor, alpha: float, eps: float, weight_decay: float, momentum: float, parameters: list[Tensor],
    gradients: list[Tensor], squares: list[Tensor], means: list[Tensor], moves: list[Tensor],
) -> None:  # fmt: skip
    """Make the step of `CentredRMSprop` on all parameters together, in place."""
    if weight_decay:
        gradients = [*torch._foreach_add(gradients, parameters, alpha=weight_decay)]
    torch._foreach_mul_(squares, alpha)
    torch._foreach_addcmul_(squares, gradients, gradients, value=1 - alpha)
    torch._foreach_lerp_(means, gradients, 1 - alpha)
    spread = torch._foreach_addcmul(squares, means, means, value=-1)
    torch._foreach_clamp_min_(spread, 0.0)
    torch._foreach_sqrt_(spread)
    torch._foreach_add_(spread, eps)
    torch._foreach_mul_(moves, momentum)
    torch._foreach_addcdiv_(moves, gradients, spread)
    if isinstance(rate, Tensor):  # a number would have to be read from the GPU, or compiled into the code
        torch._foreach_sub_(parameters, torch._foreach_mul(moves, rate))
    else:
        torch._foreach_add_(parameters, moves, alpha=-rate)
