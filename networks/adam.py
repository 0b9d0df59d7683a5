"""Adam for a stack of networks. Each member has its own step counters, as it has its own slots."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from .optimizers import OwnOptimizer

BLOCK = 16  # entries of the longest vectors, of 64 bytes


class StackedAdam(OwnOptimizer):
    """Adam (Kingma & Ba 2015) on parameters whose first axis is that of the members, (members · networks, …).

    The state is that of `torch.optim.Adam`, except that `step` has shape (members,). An intervention that reinitialises
    a unit of one member resets only that member's counter, so that a stack of seeds gives the results of separate runs.
    The arithmetic is PyTorch's fused kernel. It runs on whole tensors while the counters of all members agree, and on
    the part of each member otherwise, as it does on the few entries of a bias whose members do not begin with a vector
    of the processor: the kernel rounds what is left over otherwise, and so a member's bits would depend on its place.
    On a GPU it always runs on parts, because comparing counters would wait for the GPU.

    Args:
        params: The parameters.
        lr: The learning rate, a tensor () if a CUDA graph reads it.
        betas: β₁ and β₂, in [0, 1).
        eps: ε.
        weight_decay: The weight decay.
        decoupled: Decay the weights themselves, as AdamW does (Loshchilov & Hutter 2019); otherwise the decay is part
            of the gradient, as in `torch.optim.Adam`.
        networks: The number of networks of one member, which share its step counter.
    """

    slot_starts: ClassVar = {"step": 0.0, "exp_avg": 0.0, "exp_avg_sq": 0.0}
    counts_by_member = True  # what the shape of `step` in a checkpoint is compared with

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, decoupled: bool = False, networks: int = 1,
    ) -> None:  # fmt: skip
        options = {"weight_decay": weight_decay, "decoupled_weight_decay": decoupled}
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, **options})
        self.networks = networks

    @torch.no_grad()
    def arithmetic(self) -> None:
        """Make the step without PyTorch's bookkeeping, as `networks.optimizers.step` does."""
        for group in self.param_groups:
            parameters: list[Tensor] = [p for p in group["params"] if p.grad is not None]
            if not parameters:
                continue
            gradients = [p.grad for p in parameters if p.grad is not None]
            slots = [self.slots(p) for p in parameters]
            first, second, steps = ([slot[name] for slot in slots] for name in ("exp_avg", "exp_avg_sq", "step"))
            torch._foreach_add_(steps, 1)
            parts = [self._split(*each) for each in zip(parameters, gradients, first, second, steps, strict=True)]
            parameters, gradients, first, second, steps = (
                [tensor for kinds in parts for tensor in kinds[kind]] for kind in range(5)
            )
            arithmetic = torch._fused_adamw_ if group["decoupled_weight_decay"] else torch._fused_adam_
            arithmetic(
                parameters, gradients, first, second, [], steps, amsgrad=False, beta1=group["betas"][0],
                beta2=group["betas"][1], lr=group["lr"], weight_decay=group["weight_decay"], eps=group["eps"],
                maximize=False,
            )  # fmt: skip

    def _split(self, *kinds: Tensor) -> Sequence[Sequence[Tensor]]:
        """Return a parameter, its gradient, slots and counters as they are if one counter is enough, else by member."""
        *tensors, steps = kinds
        whole = not steps.is_cuda and tensors[0].numel() // len(steps) % BLOCK == 0 and len(set(steps.tolist())) == 1
        if whole:
            return [*([tensor] for tensor in tensors), [steps[0]]]
        return [*(tensor.split(self.networks) for tensor in tensors), steps.unbind()]

    def slots(self, parameter: Tensor) -> dict[str, Tensor]:
        """Return the state of a parameter, which is made if there is none yet."""
        slots = self.state[parameter]
        if not slots:
            slots["step"] = torch.zeros(len(parameter) // self.networks, device=parameter.device)
            slots["exp_avg"], slots["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        return slots
