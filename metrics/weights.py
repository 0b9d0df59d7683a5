"""Metrics of weights only: how far they moved (SFE) and how far they are from an isometry (DfI).

Source: FIRE, Section 3. They need no data, and are accumulated in float64 whatever the weights' dtype. NaN or infinity
in the weights gives NaN or infinity, not an error.
"""

from collections.abc import Mapping, Sequence
from math import nan
from typing import Literal

import torch
from torch import Tensor, nn

from supple.networks.scale import isometry_scale
from supple.networks.state_dicts import bare_name, match_names

Weights = Tensor | Mapping[str, Tensor] | Sequence[Tensor] | nn.Module
Side = Literal["smaller", "columns", "rows"]


@torch.no_grad()
def sfe(a: Weights, b: Weights, normalized: bool = False) -> float:
    """Return the squared Frobenius error ‖a − b‖²_F, in [0, ∞) (FIRE, eq. 1).

    Args:
        a, b: Two tensors of one shape, two sequences, two mappings name → tensor, or two modules, of which the
            parameters count (a tied one once). The result is the sum over tensors, Theorem 1's SFE(Θ, Θ~). A module can
            be compared with a mapping of its parameters, for example those of step 0.
        normalized: Divide by ‖a‖², so that 1 is the distance from a to zero. NaN if a is zero.

    Raises:
        ValueError: Names or shapes differ.

    Examples:
        >>> import torch
        >>> from supple.metrics import sfe
        >>> sfe(torch.zeros(2, 2), torch.eye(2))
        2.0
        >>> sfe({"weight": torch.eye(2)}, {"weight": torch.zeros(2, 2)}, normalized=True)
        1.0
    """
    before, after = _tensors_by_name(a), _tensors_by_name(b)
    if isinstance(a, nn.Module) != isinstance(b, nn.Module):  # a snapshot has the buffers, too
        buffers = {bare_name(name) for x in (a, b) if isinstance(x, nn.Module) for name, _ in x.named_buffers()}
        before, after = (
            {n: t for n, t in tensors.items() if bare_name(n) not in buffers} for tensors in (before, after)
        )
    names = match_names(after, before)
    if unmatched := sorted((before.keys() - names) | (after.keys() - names.values())):
        raise ValueError(f"sfe: a and b must hold the same tensors; {unmatched[0]!r} is in only one of them")

    for name, old in before.items():
        if old.shape != after[names[name]].shape:
            where = f" of {name!r}" if name else ""
            raise ValueError(f"sfe: shapes{where} differ: {tuple(old.shape)} and {tuple(after[names[name]].shape)}")
    pairs = [(old, after[names[name]].to(old.device)) for name, old in before.items()]
    error = torch.stack([(old.double() - new.double()).square().sum() for old, new in pairs]).sum().item()
    if not normalized:
        return error
    size = torch.stack([old.double().square().sum() for old, _ in pairs]).sum().item()
    return error / size if size else nan


@torch.no_grad()
def dfi(W: Tensor, side: Side = "smaller", per_dimension: bool = False) -> float:
    """Return the deviation from isometry, in [0, ∞) (FIRE, eq. 2).

    torch stores a Linear layer's weight as (out, in), while the paper's theorems multiply features by W as (in, out).
    The DfI of the theorems is `side="rows"` of a torch weight.

    Of weights that hold several matrices, pass one at a time: `W.chunk(4)` are the gates of an LSTM (3 for a GRU),
    `W.chunk(3)` the query, key and value of nn.MultiheadAttention's in_proj_weight. Pass `W.T` of transformers' Conv1D,
    whose weight is (in, out). `measure` does both.

    Args:
        W: A matrix (m, n), or a convolution's weight (C_out, C_in, *kernel). For a convolution, DfI is summed over the
            (C_out, C_in) matrices of all spatial taps, which FIRE orthogonalises. For the weight of a stacked layer,
            (members, d_out, d_in), pass one member at a time; `measure` computes them all at once.
        side: The Gram matrix that is compared with the identity.
            "smaller": WᵀW if m ≥ n, else WWᵀ. The result is Σ (σ_i² − 1)² over the min(m, n) singular values, so
            exactly 0 for every semi-isometry, in either orientation.
            "columns": eq. 2 as printed, ‖WᵀW − I_n‖²_F. For a wide W it equals the "smaller" value plus n − m, so
            FIRE's constraint DfI = 0 cannot be met.
            "rows": ‖WWᵀ − I_m‖²_F.
        per_dimension: Divide by the Gram matrix's dimension, and average over taps instead of summing, so that layers
            of different size are comparable. With "smaller" this is the mean of (σ² − 1)².

    Raises:
        ValueError: The side is unknown.

    Examples:
        >>> import torch
        >>> from supple.metrics import dfi
        >>> dfi(torch.eye(3))
        0.0
        >>> dfi(2 * torch.eye(3)), dfi(2 * torch.eye(3), per_dimension=True)
        (27.0, 9.0)
    """
    if side not in ("smaller", "columns", "rows"):
        raise ValueError(f"dfi: side must be 'smaller', 'columns' or 'rows', got {side!r}")
    gram = gram_matrices(member_taps(W[None])[0], side)
    deviation = deviations(gram).sum().item()
    return deviation / (len(gram) * gram.shape[-1]) if per_dimension else deviation


def gram_matrices(matrices: Tensor, side: Side = "smaller") -> Tensor:
    """Return each matrix's Gram matrix of one side, float64: (…, m, n) → (…, n, n) of its columns, or (…, m, m)."""
    m, n = matrices.shape[-2:]
    vectors = matrices.detach().double()
    if side == "rows" or (side == "smaller" and m < n):
        vectors = vectors.mT
    return vectors.mT @ vectors


def deviations(gram: Tensor) -> Tensor:
    """Return ‖G − I‖²_F of each Gram matrix: (…, d, d) → (…)."""
    return (gram - torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)).square().sum((-2, -1))


def dfi_unscaled(W: Tensor, per_dimension: bool = True) -> float:
    """Return the DfI per dimension of the unscaled factor W / isometry_scale(W): zero right after an exact FIRE.

    It is the mean of ((σ/s)² − 1)² for the scale s, as in logs, events and reports ("DfI (unscaled)"). `dfi(W)` of a
    weight that FIRE wrote is not zero unless d_out = d_in, because FIRE scales the isometry afterwards. Use this number
    to ask how close W is to an isometry.

    Args:
        W: (m, n) or (C_out, C_in, *kernel), as for `dfi`, whose range and errors are those of this function.
        per_dimension: False gives the sum instead of the mean.
    """
    return dfi(W.detach().double() / isometry_scale(W), per_dimension=per_dimension)


def weight_norm(module: nn.Module) -> float:
    """Return the global L2 norm of a module's parameters, tied ones once; 0.0 if it has none."""
    return _global_norm([p for p in module.parameters() if p.is_floating_point()])


def gradient_norm(module: nn.Module) -> float:
    """Return the global L2 norm of a module's present gradients; 0.0 if there are none."""
    return _global_norm([p.grad for p in module.parameters() if p.grad is not None])


@torch.no_grad()
def _global_norm(tensors: Sequence[Tensor]) -> float:
    if not tensors:
        return 0.0
    norms = [torch.linalg.vector_norm(tensor.abs(), dtype=torch.float64) for tensor in tensors]
    return torch.linalg.vector_norm(torch.stack(norms)).item()


def _tensors_by_name(weights: Weights) -> dict[str, Tensor]:
    if isinstance(weights, Tensor):
        return {"": weights}
    if isinstance(weights, nn.Module):
        return dict(weights.named_parameters())
    if isinstance(weights, Mapping):
        return dict(weights)
    return {str(index): tensor for index, tensor in enumerate(weights)}


def member_taps(W: Tensor) -> Tensor:
    """Return weights of each network of a stack, (members, m, n, *kernel) → (members, taps, m, n)."""
    return W.detach().flatten(3).movedim(-1, 1) if W.dim() > 3 else W.detach().unsqueeze(1)
