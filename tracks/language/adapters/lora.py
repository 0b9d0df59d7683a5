"""LoRA for a sequence of tasks: one adapter for all (SeqLoRA), one for each (IncLoRA), orthogonal ones (O-LoRA).

y = W·x + b + (alpha/r)·Σ_t B_tᵀ·(A_t·x)      (Hu et al. 2021; PEFT's scaling, no dropout)
"""

import torch
from torch import Tensor, nn

from supple.interventions import LinearPair
from supple.interventions.base import check_within

from .base import Adapter, adapters_by_kind


class LoRA(Adapter):
    """The base class of the three, with constant weights alpha/r.

    Args:
        r: The rank, of each task's part.
        alpha: The scale times r. None means r, a scale of 1.
    """

    def __init__(self, linear: nn.Linear, r: int = 16, alpha: float | None = None) -> None:
        check_within(type(self).__name__, alpha=(alpha, "(0, ∞)"))
        super().__init__(linear, r)
        self.alpha = alpha

    def weights(self, x: Tensor, z: Tensor) -> Tensor:
        return z.new_full((), 1.0 if self.alpha is None else self.alpha / self.r).expand_as(z)

    def linear_pairs(self) -> list[LinearPair]:
        """Return A and Bᵀ of the current task as two consecutive linear maps.

        They are, because all atoms have the same constant weight. A mixture has no such pair: its weights depend on the
        token.
        """
        return [LinearPair("", (self.A,), (self.B.T,), parameters=("A", "B"))] if self.A.requires_grad else []


@adapters_by_kind.register("seqlora")
class SeqLoRA(LoRA):
    """One LoRA, which every task trains."""

    def add_task(self, generator: torch.Generator | None = None) -> None:
        """Begin a task. The first one adds the atoms, and later ones continue with the same tensors."""
        if not self.sizes:
            super().add_task(generator)
        else:
            self.sizes += (0,)


@adapters_by_kind.register("inclora")
class IncLoRA(LoRA):
    """A new LoRA for every task. The older ones are frozen, and all are summed."""


@adapters_by_kind.register("olora")
class OLoRA(LoRA):
    """IncLoRA with a penalty strength·Σ(A_old·A_newᵀ)² on the overlap of new keys with old ones (Wang et al. 2023,
    "Orthogonal subspace learning for language model continual learning").

    The sum is over the squares of all pairs of an old and a new key, as in their paper. Their released code sums
    absolute values instead, whose gradient does not vanish near orthogonality, with strength 0.5.

    Args:
        r: The rank of each.
        alpha: The scale times r. None means r, a scale of 1.
        strength: λ ≥ 0.
    """

    def __init__(self, linear: nn.Linear, r: int = 16, alpha: float | None = None, strength: float = 0.5) -> None:
        check_within("OLoRA", strength=(strength, "[0, ∞)"))
        super().__init__(linear, r, alpha)
        self.strength = strength

    def penalty(self) -> Tensor:
        return self.strength * (self.get_buffer("frozen_A") @ self.A.T).square().sum()
