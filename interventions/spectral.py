"""Spectral regularisation keeps the largest singular value of every layer near 1 and biases near 0.

    L ← L + λ·Σ_l [(σ₁(W_l)ᵏ − 1)² + ‖b_l‖²ᵏ]   over layers, k = 2
        + λ·Σ_i [(γ_iᵏ − 1)² + β_i²ᵏ]           over the gains γ and shifts β of normalisation layers

It covers hidden and output layers. A kernel is the matrix (C_out, C_in·k_h·k_w). The gains of a normalisation are a
diagonal matrix. All of its entries are penalised, since the largest one has no gradient for the others. Each part of a
fused layer, and each member of a stack, is a matrix of its own.

σ₁ = ‖Wv‖ after one step of the power iteration at every loss, v ← WᵀWv/‖WᵀWv‖, as in the paper. The gradient treats v
as a constant. The iteration starts with ten steps from equal entries, so that no random number is drawn. For a zero
matrix v does not change.

Source: Lewandowski et al. 2024, "Learning continually by spectral regularization", arXiv:2406.06811.

Resets: nothing.

Cost: three matrix–vector products and one stored vector for each matrix, at every update.
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from supple.networks import Learner
from supple.networks.layers import Layer, require_trained, trained_kernels
from supple.networks.modules import NORMS

from .base import Intervention, check_within, interventions

START = 10  # steps of the power iteration before the first loss
STAY = 1e-15  # of v in its next direction: nothing, but where W is zero


@interventions.register("spectral")
class Spectral(Intervention):
    """Penalise Σ[(σ₁(W)^power − 1)² + ‖b‖^(2·power)] of all layers (Lewandowski et al. 2024).

    Parameters outside layers and normalisations, and parameters that are not trained, are unchanged.

    Args:
        strength: λ ≥ 0; 1e-4 is usual.
        power: k ≥ 1; the paper uses 2. A larger power penalises large singular values more.
    """

    def __init__(self, strength: float = 1e-4, power: int = 2) -> None:
        check_within("spectral", strength=(strength, "[0, ∞)"), power=(power, "[1, ∞)"))
        self.strength, self.power = strength, power
        self.saved = {}  # v by learner and identity of the weight

    def attach(self, learner: Learner) -> None:
        require_trained(learner.layers, f"spectral: no layer of '{learner.name}'")

    def penalty(self, learner: Learner) -> Tensor:
        sigma, biases = [], []
        known: dict[str, dict[str, Tensor]] = self.saved.setdefault(learner.name, {})
        for key, (layer, matrices) in _find_matrices(learner).items():
            if key not in known:
                known[key] = {"right": normalize(torch.ones_like(matrices[..., 0, :]), dim=-1)}
                for _ in range(START):
                    _step_(matrices, known[key]["right"])
            vectors = _step_(matrices, known[key]["right"])  # v, (…, columns), of matrices (…, rows, columns)
            sigma.append(torch.linalg.vector_norm(_product(matrices, vectors), dim=-1))
            if layer.module.bias is not None:
                bias = layer.module.get_parameter("bias").unflatten(-1, (layer.split, -1))
                biases.append(bias.square().sum(-1))
        norms = [
            norm
            for norm in learner.module.modules()
            if isinstance(norm, NORMS) and norm.weight is not None and norm.weight.requires_grad
        ]
        gains = [norm.get_parameter("weight") for norm in norms]
        # RMSNorm has no bias
        shifts = [norm.get_parameter("bias").square() for norm in norms if getattr(norm, "bias", None) is not None]
        to_one = torch.cat([values.reshape(-1) for values in sigma + gains])
        to_zero = torch.cat([values.reshape(-1) for values in biases + shifts or [torch.zeros_like(sigma[0])]])
        return self.strength * ((to_one**self.power - 1).square().sum() + (to_zero**self.power).sum())


def _find_matrices(learner: Learner) -> dict[str, tuple[Layer, Tensor]]:
    """Return the trained layers by identity, each with its matrix (rows, columns); a tied weight occurs once.

    A fused layer has several matrices, (parts, rows, columns), and so has a stack, (members, …).
    """
    trained = {}
    for weight, layer in trained_kernels(learner.layers).items():
        trained[learner.identity(layer.weight_name)] = layer, layer.matrices(weight)
    return trained


def _product(matrices: Tensor, vectors: Tensor) -> Tensor:
    """Return W·v: (…, rows, columns) and (…, columns) → (…, rows)."""
    if matrices.ndim == 2:
        return matrices @ vectors
    return (vectors.unsqueeze(-2) @ matrices.mT).squeeze(-2)  # on CPUs ten times as fast as with v as a column


@torch.no_grad()
def _step_(matrices: Tensor, vectors: Tensor) -> Tensor:
    """Make one step of the power iteration in place, v ← WᵀWv at length 1, and return a copy that later steps keep."""
    image = _product(matrices.mT, _product(matrices, vectors))
    image.add_(vectors, alpha=STAY)
    image.div_(torch.linalg.vector_norm(image, dim=-1, keepdim=True))
    vectors.copy_(image)
    return image
