"""LoRA through a sequence of tasks: one adapter for all (SeqLoRA), one for each (IncLoRA), orthogonal ones (O-LoRA).

y = W·x + b + (alpha/r)·Σ_t B_tᵀ·(A_t·x)      (Hu et al. 2021; PEFT's scaling, no dropout)
"""

import torch
from torch import Tensor, nn

from ....interventions import LinearPair
from .base import Adapter, adapters_by_kind


class LoRA(Adapter):
    """The common base of the three: constant weights alpha/r."""

    def __init__(self, linear: nn.Linear, r: int, alpha: float | None) -> None:
        if alpha is not None and not 0.0 < alpha < float("inf"):
            raise ValueError(f"{type(self).__name__}: alpha must be finite and > 0, got {alpha}")
        super().__init__(linear, r)
        self.alpha = alpha

    def weights(self, x: Tensor, z: Tensor) -> Tensor:
        return z.new_full((), 1.0 if self.alpha is None else self.alpha / self.r).expand_as(z)

    def linear_pairs(self) -> list[LinearPair]:
        """Return a and Bᵀ of the current task: with the same constant weight for every atom they are one map after the
        other. A mixture whose weights depend on the token, let alone on A (MoRAM's keys), has no such pair."""
        if not self.A.requires_grad:
            return []
        return [LinearPair("", (self.A,), (self.B.T,), parameters=("A", "B"))]


@adapters_by_kind.register("seqlora")
class SeqLoRA(LoRA):
    """One LoRA, trained on by every task.

    r: its rank. alpha: its scale times r; None: r, a scale of 1."""

    def __init__(self, linear: nn.Linear, r: int = 16, alpha: float | None = None) -> None:
        super().__init__(linear, r, alpha)

    def add_task(self, generator: torch.Generator | None = None) -> None:
        """Begin a task: the first one brings the atoms, a later one goes on with the same tensors."""
        if not self.sizes:
            super().add_task(generator)
        else:
            self.sizes += (0,)


@adapters_by_kind.register("inclora")
class IncLoRA(LoRA):
    """A new LoRA for every task, the older ones frozen, all summed.

    r: rank of each. alpha: scale times r; None: r, a scale of 1."""

    def __init__(self, linear: nn.Linear, r: int = 16, alpha: float | None = None) -> None:
        super().__init__(linear, r, alpha)


@adapters_by_kind.register("olora")
class OLoRA(LoRA):
    """IncLoRA with a penalty strength·Σ(A_old·A_newᵀ)² on what new keys share with old ones (Wang et al. 2023,
    "Orthogonal subspace learning for language model continual learning").

    The sum is over all pairs of an old and a new key, of squares, as in their paper; their released code sums absolute
    values instead, whose gradient does not fade near orthogonality, with strength 0.5.

    r, alpha: as in IncLoRA. strength: λ ≥ 0.
    """

    def __init__(self, linear: nn.Linear, r: int = 16, alpha: float | None = None, strength: float = 0.5) -> None:
        if not 0.0 <= strength < float("inf"):
            raise ValueError(f"OLoRA: strength must be finite and ≥ 0, got {strength}")
        super().__init__(linear, r, alpha)
        self.strength = strength

    def penalty(self) -> Tensor:
        return self.strength * (self.get_buffer("frozen_A") @ self.A.T).square().sum()
