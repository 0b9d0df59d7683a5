"""Adam for a stack of networks: each member has step counters of its own, as it has moments of its own."""

from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.optim.adam import adam


class StackedAdam(torch.optim.Optimizer):
    """Adam (Kingma & Ba 2015) on parameters whose first axis is the members'.

    The state is that of `torch.optim.Adam`, but `step` has the shape (members,): an intervention that recycles a unit
    of one member starts that member's counter anew and no other's, so that a stack of seeds gives what separate runs
    give. The arithmetic is torch's fused kernel: on whole tensors while all members' counters agree, else on each
    member's part (on a GPU always, where looking at counters would mean waiting for them).
    """

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:  # fmt: skip
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Any = None) -> float | None:
        """One step along `.grad` of each parameter that has one."""
        value = None if closure is None else closure()
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            slots = [self._slots(p) for p in parameters]
            tensors = [
                parameters,
                [p.grad for p in parameters],
                *([slot[name] for slot in slots] for name in ("exp_avg", "exp_avg_sq", "step")),
            ]
            counters = tensors[-1]
            together = all(not c.is_cuda and len(set(c.tolist())) == 1 for c in counters)
            if together:
                tensors[-1] = [c[0] for c in counters]
            else:
                tensors = [[part for tensor in kind for part in tensor.unbind()] for kind in tensors]
            *lists, steps = tensors
            adam(
                *lists, [], steps, fused=True, amsgrad=False, beta1=group["betas"][0], beta2=group["betas"][1],
                lr=group["lr"], weight_decay=0.0, eps=group["eps"], maximize=False,
            )  # fmt: skip
            if together:
                for counter in counters:
                    counter[1:] = counter[0]
        return value

    def _slots(self, parameter: Tensor) -> dict[str, Tensor]:
        slots = self.state[parameter]
        if not slots:
            slots["step"] = torch.zeros(len(parameter), device=parameter.device)
            slots["exp_avg"], slots["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        return slots
