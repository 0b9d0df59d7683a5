"""MoRAM, a mixture of rank-1 associative memory experts (the MoRAM paper).

    ΔW·x = Σ_i w_i·B_i·(A_i·x),   s = A·x / ‖A·x‖₂ over the atoms of all tasks (eq. 4, 5)
    w = softmax(s/τ) over the k largest s, 0 elsewhere (eq. 6, 7);  in evaluation w_i := 0 where s_i < δ (eq. 8)

The keys are the router: there is no other one, and no extra loss. Each task adds r atoms and freezes the older ones.

Choices where the paper is silent or contradicts itself:
- Top-k uses the signed s, as in eq. 6, so an atom whose key points away from x is chosen last.
- The weights are not renormalised after δ (eq. 8), so a token that fits no atom gets no update.
- x = 0 has no direction: s = 0, and the update is 0.
- τ = 0.1 (Appendix A.1, CLIP). The "moderate temperature of 0.01" in 4.3 contradicts it and the axis of Figure 4b.
  TRACE has 0.03, and a single fine-tuning task 0.5. δ = 0.2 everywhere in A.1.
- "Without temperature" (Table 4) is read as τ = 1: the softmax is present but not sharpened.
- Table 11 counts k·d_out "trainable" parameters, which are the values that a token activates. All r·(d_in + d_out)
  are trained during a task, as Table 18 counts them (4.4 M, as many as LoRA's).
- BWT (eq. 10) is a loss of performance, A_jj − A_Nj, so lower is better. The usual sign is the opposite.

Cost for n tokens and N atoms: 2·n·N·d_in for the scores, n·N for the top-k, and for the values either 2·n·k·d_out
(gathered) or 2·n·N·d_out (a masked dense product). The Linear costs 2·n·d_in·d_out. See `GATHER_FROM`.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from supple.interventions.base import check_within

from .base import Adapter, adapters_by_kind, widen

# Values are gathered without gradients on a CPU from this many atoms for each one kept, where it began to pay in
# benchmarks/parts/measure.py moram-gathering (512 tokens, 1 thread: even at 3 or 4, a fifth to a quarter of the
# adapter's time saved at 10, widths 1024 and 2048, k 16 and 32). Elsewhere the product is dense: a gather's backward
# pass cannot be differentiated again, and on a GPU 160 columns are next to nothing.
GATHER_FROM = 4


@adapters_by_kind.register("moram")
class MoRAM(Adapter):
    """Rank-1 atoms whose weights depend on how well their keys match the token (the MoRAM paper).

    Args:
        r: The number of atoms that a task adds.
        k: The number of atoms, of all tasks, that a token may use. None means all.
        tau: The temperature of the softmax, > 0. None means 1.
        delta: The smallest score, in [−1, 1], that counts in evaluation. None means that all selected atoms count.

    With None, these are the rows of Table 4. With k, tau and delta None, it is "self-activated retrieval".
    """

    unmergeable = "which atoms act, and how much, depends on the token (eq. 4-8)"

    def __init__(
        self,
        linear: nn.Linear,
        r: int = 16,
        k: int | None = 16,
        tau: float | None = 0.1,
        delta: float | None = 0.2,
    ) -> None:
        check_within("MoRAM", k=(k, "[1, ∞)"), tau=(tau, "(0, ∞)"), delta=(delta, "[-1, 1]"))
        super().__init__(linear, r)
        self.k, self.tau, self.delta = k, tau, delta

    def route(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return weights and activations (…, kept) of the selected atoms, and their indices (None: all).

        z: The activations A·x, (…, atoms)."""
        z = widen(z)
        # A norm has no second derivative at 0, and padding is often embedded there: 1 takes its place.
        squared = z.square().sum(-1, keepdim=True)
        norm = torch.where(squared > 0, squared, 1.0).sqrt()
        kept, index = z, None
        if self.k is not None and self.k < z.shape[-1]:
            kept, index = z.topk(self.k, dim=-1, sorted=False)  # in the order of s, which is z over a positive number
        scores = kept / norm
        weights = (scores if self.tau is None else scores / self.tau).softmax(-1)
        if self.delta is not None and not self.training:
            weights = weights.masked_fill(scores < self.delta, 0.0)
        return weights, kept, index

    def weights(self, x: Tensor, z: Tensor) -> Tensor:
        weights, _, index = self.route(z)
        return weights if index is None else _spread(weights, index, z.shape[-1])

    def read(self, x: Tensor, z: Tensor) -> Tensor:
        weights, kept, index = self.route(z)
        if self.watch:
            self.watch((weights if index is None else _spread(weights, index, z.shape[-1])).detach())
        scale, values = (weights * kept).to(x.dtype), self.bank("B").to(x.dtype)
        if index is None:
            return scale @ values
        if x.device.type == "cpu" and not torch.is_grad_enabled() and self.atoms >= GATHER_FROM * index.shape[-1]:
            flat = (index.numel() // index.shape[-1], index.shape[-1])
            read = F.embedding_bag(index.view(flat), values, per_sample_weights=scale.view(flat), mode="sum")
            return read.view(*x.shape[:-1], values.shape[1])
        return _spread(scale, index, z.shape[-1]) @ values

    def activated_parameters(self) -> int:
        """Return the size of all keys, because each of them gets a score, plus that of the values of at most k atoms.

        With one task this is r·d_in + k·d_out, as in Table 11."""
        kept = self.atoms if self.k is None else min(self.k, self.atoms)
        return self.atoms * self.in_features + kept * self.out_features


def _spread(kept: Tensor, index: Tensor, atoms: int) -> Tensor:
    """Return the values of the selected atoms (…, k) at their positions among all, (…, atoms), and 0 elsewhere."""
    return kept.new_zeros(*kept.shape[:-1], atoms).scatter(-1, index, kept)
