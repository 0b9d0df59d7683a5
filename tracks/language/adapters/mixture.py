"""Mixtures with a learned router, with which MoRAM is compared: over whole LoRAs, and over single atoms (Table 4).

    MoE-LoRA:         y = W·x + b + Σ_t R(x)_t·B_tᵀ·(A_t·x),   R(x) = softmax(x·W_r) over tasks (MoRAM paper, 3.1)
    external router:  y = W·x + b + Σ_i R(x)_i·B_i·(A_i·x),    R(x) = softmax(x·W_r) over atoms

Each task adds its columns of W_r (rows here), initialised as a Linear's, and freezes the older ones with their experts.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from supple.interventions.base import check_within

from .base import Adapter, adapters_by_kind, top_k_softmax, widen


@adapters_by_kind.register("external_router")
class ExternalRouter(Adapter):
    """Rank-1 atoms, mixed by a learned router instead of by their own keys.

    Args:
        r: The number of atoms that a task adds.
        k: The number of atoms (of MoE-LoRA: of experts) that a token may use: those with the largest logits. None means
            all.
    """

    banks = ("A", "B", "router")
    unmergeable = "the router weighs its experts by the token"

    def __init__(self, linear: nn.Linear, r: int = 16, k: int | None = None) -> None:
        check_within(type(self).__name__, k=(k, "[1, ∞)"))
        super().__init__(linear, r)
        self.k = k

    def weights(self, x: Tensor, z: Tensor) -> Tensor:
        return top_k_softmax(widen(F.linear(x, self.bank("router").to(x.dtype))), self.k)

    def experts_used(self, experts: int) -> int:
        """Return the number of experts that a token uses, out of this many."""
        return experts if self.k is None else min(self.k, experts)

    def activated_parameters(self) -> int:
        return self.atoms * self.in_features + self.experts_used(self.atoms) * (self.in_features + self.out_features)


@adapters_by_kind.register("moe_lora")
class MoELoRA(ExternalRouter):
    """A LoRA of rank r for every task as an expert, mixed by a learned router."""

    def _rows_added(self, name: str) -> int:
        return 1 if name == "router" else self.r

    def weights(self, x: Tensor, z: Tensor) -> Tensor:
        return super().weights(x, z).repeat_interleave(self.r, dim=-1)

    def activated_parameters(self) -> int:
        experts = self.experts_used(len(self.sizes))
        return len(self.sizes) * self.in_features + experts * self.r * (self.in_features + self.out_features)
