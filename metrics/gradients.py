"""Metrics of gradients: of each sample (do they pull in many directions or in few?) and of each unit."""

from collections.abc import Iterable

import torch
from torch import Tensor

from supple.networks.hidden_units import small_gradients

from .features import count_holding


def per_sample_gradients(losses: Tensor, parameters: Iterable[Tensor]) -> Tensor:
    """Return each sample's gradient: losses (n,) → (n, parameters); (members, n) → (members, n, parameters).

    All backward passes run as one batched pass. The graph is kept, and `.grad` is unchanged. The result has
    n × parameters entries: pass few samples of a large network, or the parameters of one layer.

    Args:
        losses: Differentiable, one for each sample; for a stack of networks one row for each member, whose parameters
            have the member first. Samples must be independent (they are not with batch normalisation in training mode).
        parameters: A parameter that no loss depends on has zeros.
    """
    wanted = list(parameters)
    samples = losses.shape[-1]
    select = torch.eye(samples, dtype=losses.dtype, device=losses.device)
    if losses.dim() == 2:  # members share no parameter, so one pass has the gradients of all of them
        select = select[:, None].expand(-1, len(losses), -1)
    gradients = torch.autograd.grad(losses, wanted, select, is_grads_batched=True, retain_graph=True, allow_unused=True)
    batched = [p.new_zeros(samples, *p.shape) if g is None else g for g, p in zip(gradients, wanted, strict=True)]
    if losses.dim() == 1:
        return torch.cat([g.reshape(samples, -1) for g in batched], dim=-1)
    return torch.cat([g.movedim(0, 1).reshape(len(losses), samples, -1) for g in batched], dim=-1)


@torch.no_grad()
def gradient_covariance(gradients: Tensor, normalized: bool = False) -> Tensor:
    """Return M with entries ⟨g_i, g_j⟩ between the samples' gradients: (…, n, parameters) → (…, n, n) float64.

    Lillo & Cheney, B.7.2: M = GᵀG, neither centred nor divided by n, although it is called a covariance.

    Args:
        gradients: (…, n, parameters).
        normalized: Return the cosines ⟨g_i, g_j⟩/(‖g_i‖‖g_j‖) of Lyle et al. 2023, in [−1, 1]; 0 if a gradient is zero.
    """
    # In parts, since a copy of all of them in float64 would be the largest thing in memory.
    gram = sum((part.double() @ part.double().mT for part in gradients.split(1 << 20, dim=-1)), start=torch.zeros(()))
    if not normalized:
        return gram
    norms = gram.diagonal(dim1=-2, dim2=-1).sqrt()
    scale = torch.where(norms > 0, 1 / norms, 0.0)
    return scale[..., :, None] * gram * scale[..., None, :]


@torch.no_grad()
def gradient_effective_rank(gradients: Tensor, tau: float = 0.99) -> Tensor:
    """Return erank_τ, the smallest k whose k largest singular values of M hold a share τ of their sum.

    Source: Lillo & Cheney, B.7.2. In words they refer to the energy of the Hessian; their formula, which is computed
    here, uses the gradients. M = `gradient_covariance(gradients)`, whose singular values are the squares of those of G,
    so `srank(G, 1 − τ)` is a different, larger number.

    Args:
        gradients: (…, n, parameters), as `per_sample_gradients` returns them.
        tau: τ in (0, 1).

    Returns:
        Ranks, (…), int64, in 1 … min(n, parameters), and 0 if all gradients are zero.
    """
    energies = torch.linalg.eigvalsh(gradient_covariance(gradients)).clamp(min=0).flip(-1)
    return count_holding(energies, tau)


@torch.no_grad()
def small_gradient_fraction(*gradients: Tensor, tau: float = 0.01) -> Tensor:
    """Return the share of units whose incoming weights have small gradients, pooled over layers: (…) float64.

    It is NaN for a network with gradients that are not finite.

    Args:
        gradients: Of each layer's weight, (…, units, incoming weights); see `networks.hidden_units.small_gradients`.
        tau: The threshold, ≥ 0, as a share of the layer's mean. Its default is our choice.
    """
    small = [small_gradients(g, tau) + 0 * g.sum(-1, dtype=torch.float64) for g in gradients]  # NaN where that is NaN
    return torch.cat(small, dim=-1).mean(-1)
