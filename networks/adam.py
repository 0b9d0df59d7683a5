"""Adam for one network, or for a stack of them whose members have their own step counters, as they have own slots."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from .optimizers import OwnOptimizer

BLOCK = 16  # entries of the longest vectors, of 64 bytes


class Adam(OwnOptimizer):
    """Adam (Kingma & Ba 2015), for one network or for a stack, whose parameters are (members · networks, …).

    The state and the bits are those of `torch.optim.Adam(fused=True)`, except that `step` of a stack has shape
    (members,). An intervention that reinitialises a unit of one member resets only that member's counter, so that a
    stack of seeds gives the results of separate runs. The arithmetic is PyTorch's fused kernel. For a stack, it runs on
    whole tensors while the counters of all members agree, and on the part of each member otherwise, as it does on the
    few entries of a bias whose members do not begin with a vector of the processor: the kernel rounds what is left over
    otherwise, and so a member's bits would depend on its place. On a GPU it always runs on parts, because comparing
    counters would wait for the GPU.

    Args:
        params: The parameters.
        lr: The learning rate, 0 or more; a tensor () if a CUDA graph reads it.
        betas: β₁ and β₂, in [0, 1).
        eps: ε.
        weight_decay: The weight decay.
        decoupled: Decay the weights themselves, as AdamW does (Loshchilov & Hutter 2019); otherwise the decay is part
            of the gradient, as in `torch.optim.Adam`.
        networks: The number of networks of one member of a stack, which share its step counter; 0 without a stack.

    Raises:
        ValueError: A number is out of its range.
    """

    slot_starts: ClassVar = {"step": 0.0, "exp_avg": 0.0, "exp_avg_sq": 0.0}

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, decoupled: bool = False, networks: int = 0,
    ) -> None:  # fmt: skip
        if not (lr >= 0 and eps >= 0 and weight_decay >= 0 and all(0 <= beta < 1 for beta in betas)):
            raise ValueError(
                f"Adam: rates must be 0 or more and betas lie in [0, 1), got {lr}, {betas}, {weight_decay}"
            )
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
            gradients: list[Any] = [p.grad for p in parameters]
            slots = [self.state[p] or self.slots(p) for p in parameters]
            first, second, steps = ([slot[name] for slot in slots] for name in ("exp_avg", "exp_avg_sq", "step"))
            torch._foreach_add_(steps, 1)
            if self.networks:
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
            members = (len(parameter) // self.networks,) if self.networks else ()
            slots["step"] = torch.zeros(members, device=parameter.device)
            slots["exp_avg"], slots["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        return slots
