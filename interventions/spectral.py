"""Spectral regularisation (Lewandowski et al. 2024, "Learning continually by spectral regularization", arXiv
2406.06811).

    L ← L + λ·Σ_l [(σ₁(W_l)ᵏ − 1)² + ‖b_l‖²ᵏ]   over layers, k = 2
        + λ·Σ_i [(γ_iᵏ − 1)² + β_i²ᵏ]           over the gains γ and shifts β of normalisation layers

keeps the largest singular value σ₁ of every layer near 1, hidden and output layers alike, and biases near 0. A kernel
is the matrix (C_out, C_in·k_h·k_w). A normalisation's gains are a diagonal matrix, of which every entry is taken, since
a largest one has no gradient for the others. Each part of a fused layer, and each member of a stack, is a matrix of its
own.

σ₁ = uᵀWv, where one step of the power iteration follows every update, v ← Wᵀu/‖Wᵀu‖, u ← Wv/‖Wv‖, as in the paper; the
penalty's gradient takes u and v for constants. They begin at the row of largest norm, ten steps on, so that nothing is
drawn. Of a zero matrix they stay as they are.

It resets nothing. Cost: three products of a matrix and a vector for each matrix and update; two vectors for each
matrix.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..networks.layers import Layer
from ..networks.learner import Learner
from ..networks.wiring import NORMS
from .base import Intervention, interventions

START = 10  # steps of the power iteration before the first update


@interventions.register("spectral")
class Spectral(Intervention):
    """Penalty strength·Σ[(σ₁(W)^power − 1)² + ‖b‖^(2·power)] on all layers (Lewandowski et al. 2024).

    strength: λ ≥ 0; 1e-4 is usual. power: k ≥ 1; the paper's is 2: the larger, the more large singular values cost.
    Parameters that belong to neither a layer nor a normalisation are left alone, and so is what is not trained.
    """

    def __init__(self, strength: float = 1e-4, power: int = 2) -> None:
        if not 0.0 <= strength < float("inf"):
            raise ValueError(f"spectral: strength must be finite and ≥ 0, got {strength}")
        if power < 1:
            raise ValueError(f"spectral: power must be 1 or more, got {power}")
        self.strength, self.power = strength, power
        self._vectors: dict[str, dict[str, dict[str, Tensor]]] = {}  # u and v by learner and identity of layer

    def attach(self, learner: Learner) -> None:
        if not any(layer.weight.requires_grad for layer in learner.layers):
            raise ValueError(f"spectral: no layer of '{learner.name}' is trained")

    def penalty(self, learner: Learner) -> Tensor:
        k, terms = self.power, []
        for key, (layer, matrices) in _trained(learner).items():
            uv = self._of(learner, key, matrices)
            sigma = (uv["left"] * (matrices @ uv["right"].unsqueeze(-1)).squeeze(-1)).sum(-1)
            terms.append((sigma**k - 1).square().sum())
            if layer.module.bias is not None:
                bias = layer.module.get_parameter("bias")
                terms.append((bias.unflatten(-1, (layer.split, -1)).square().sum(-1) ** k).sum())
        for norm in learner.module.modules():
            if isinstance(norm, NORMS) and norm.weight is not None and norm.weight.requires_grad:
                terms.append((norm.get_parameter("weight") ** k - 1).square().sum())
                if norm.bias is not None:
                    terms.append((norm.get_parameter("bias").square() ** k).sum())
        return self.strength * torch.stack(terms).sum()

    @torch.no_grad()
    def after_update(self, learner: Learner) -> None:
        for key, (_, matrices) in _trained(learner).items():
            uv = self._of(learner, key, matrices)
            _step_(matrices, uv["left"], uv["right"])

    def _of(self, learner: Learner, key: str, matrices: Tensor) -> dict[str, Tensor]:
        """Return u, (…, rows), and v, (…, columns), of a layer's matrices (…, rows, columns)."""
        known = self._vectors.setdefault(learner.name, {})
        if key not in known:
            with torch.no_grad():
                largest = torch.linalg.vector_norm(matrices, dim=-1).argmax(-1, keepdim=True)
                left = torch.zeros(matrices.shape[:-1], dtype=matrices.dtype, device=matrices.device)
                left.scatter_(-1, largest, 1.0)
                right = normalize(torch.ones_like(matrices[..., 0, :]), dim=-1)
                for _ in range(START):
                    _step_(matrices, left, right)
                known[key] = {"left": left, "right": right}
        return known[key]

    def state_dict(self) -> dict[str, Any]:
        return {learner: {key: dict(uv) for key, uv in known.items()} for learner, known in self._vectors.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._vectors = {  # copies, since they are written in place
            learner: {key: {name: value.clone() for name, value in uv.items()} for key, uv in known.items()}
            for learner, known in state.items()
        }


def _trained(learner: Learner) -> dict[str, tuple[Layer, Tensor]]:
    """Return the trained layers by identity, each with its matrices, (parts, rows, columns), or (members, parts, rows,
    columns) of a stack; a tied weight once."""
    layers = {layer.weight: layer for layer in learner.layers if layer.weight.requires_grad}
    return {
        learner.identity(f"{layer.name}.weight"): (
            layer,
            weight.flatten(1 + layer.stacked).unflatten(-2, (layer.split, -1)),
        )
        for weight, layer in layers.items()
    }


def _step_(matrices: Tensor, left: Tensor, right: Tensor) -> None:
    """Take one step of the power iteration, in place; of a matrix that maps them to zero, vectors stay."""
    for vector, image in (
        (right, lambda: (left.unsqueeze(-2) @ matrices).squeeze(-2)),
        (left, lambda: (matrices @ right.unsqueeze(-1)).squeeze(-1)),
    ):
        new = image()
        norm = torch.linalg.vector_norm(new, dim=-1, keepdim=True)
        vector.copy_(torch.where(norm > 0, new / norm, vector))
