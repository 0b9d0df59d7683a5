"""Metrics of features: rank, dormant units, and rotation of a representation.

Feature matrices have one row per sample, (n, d). A convolution's (N, C, H, W) is read as the rows that a following
Linear layer would see, (N, C·H·W); a transformer's (N, T, D) as one row per token, (N·T, D). For a stack of networks,
(members, n, d), pass the features of one member at a time; `measure` computes them all at once. Features are not
centred, as in the papers cited.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, overload

import torch
from torch import Tensor

from supple.networks import hidden_units as units

Activations = Tensor | Sequence[Tensor] | Mapping[str, Tensor]


@torch.no_grad()
def srank(features: Tensor, delta: float = 0.01) -> int:
    """Return the smallest k whose k largest singular values hold a share 1 − delta of their sum (Kumar et al. 2021).

    It is also called "effective rank" or "stable rank" elsewhere; here it is only called srank. Invariant to rotation
    and scale. Computed in float64.

    Args:
        features: (n, d), or a shape of the module's docstring.
        delta: The share that the other singular values may hold, in [0, 1).

    Returns:
        An integer in 0 … min(n, d), 0 only for an all-zero matrix.

    Raises:
        ValueError: Features are not finite.

    Examples:
        >>> import torch
        >>> from supple.metrics import srank
        >>> features = torch.diag(torch.tensor([98.0, 1.0, 1.0]))
        >>> srank(features), srank(features, delta=0.0)
        (2, 3)
    """
    return int(count_holding(_singular_values(features, "srank")[0], 1 - delta))


@torch.no_grad()
def effective_rank(features: Tensor) -> float:
    """Return the exponential of the entropy of the singular values divided by their sum (Roy & Vetterli 2007).

    Invariant to rotation and scale. Computed in float64.

    Args:
        features: (n, d), or a shape of the module's docstring.

    Returns:
        A float in [1, min(n, d)], and 0.0 for an all-zero matrix.

    Raises:
        ValueError: Features are not finite.

    Examples:
        >>> import torch
        >>> from supple.metrics import effective_rank
        >>> round(effective_rank(torch.eye(3)), 6)
        3.0
        >>> round(effective_rank(torch.diag(torch.tensor([98.0, 1.0, 1.0]))), 6)
        1.118403
    """
    return float(entropy_rank(_singular_values(features, "effective_rank")[0]))


@torch.no_grad()
def feature_rank(features: Tensor, threshold: float = 0.01) -> int:
    """Return the number of singular values of features/√n above the threshold (Lyle et al. 2022; their ε is 0.01).

    Unlike the other ranks it falls when features shrink: it counts the directions in which they are large enough to be
    used. Computed in float64. Source: "Understanding and Preventing Capacity Loss in Reinforcement Learning".

    Args:
        features: (n, d), or a shape of the module's docstring.
        threshold: Above 0, in units of the features.

    Returns:
        An integer in 0 … min(n, d).

    Raises:
        ValueError: Features are not finite.
    """
    values, shape = _singular_values(features, "feature_rank")
    return int(count_large(values, shape[-2], threshold))


@torch.no_grad()
def numerical_rank(features: Tensor) -> int:
    """Return the number of singular values above σ₁ · max(n, d) · ε, ε the machine epsilon of the features' own dtype.

    This is the convention of `numpy.linalg.matrix_rank` and of torch. Singular values are computed in float64; the
    tolerance is that of the features' dtype.

    Args:
        features: (n, d), or a shape of the module's docstring.

    Returns:
        An integer in 0 … min(n, d), 0 only for an all-zero matrix.

    Raises:
        ValueError: Features are not finite.
    """
    return int(count_resolved(*_singular_values(features, "numerical_rank"), features.dtype))


def count_holding(values: Tensor, share: float) -> Tensor:
    """Return the smallest k whose first k values hold this share of the sum (0 if all 0): (…, r) descending → (…)."""
    cumulative = values.cumsum(-1)
    total = cumulative[..., -1]
    # A tie, as in the identity's 99 of 100, must not hang on the last bit of a sum.
    short = cumulative < share * (1 - 1e-12) * total[..., None]
    return torch.where(total > 0, short.sum(-1) + 1, 0)


def entropy_rank(values: Tensor) -> Tensor:
    """Return the exponential of the entropy of the values over their sum; 0 if all are 0: (…, r) → (…)."""
    total = values.sum(-1, keepdim=True)
    ranks = torch.special.entr(values / total).sum(-1).exp()
    return torch.where(total[..., 0] == 0, 0.0, ranks)


def count_large(values: Tensor, samples: int, threshold: float = 0.01) -> Tensor:
    """Return `feature_rank` of singular values: (…, r) → (…)."""
    return (values > threshold * samples**0.5).sum(-1)


def count_resolved(values: Tensor, shape: torch.Size, dtype: torch.dtype) -> Tensor:
    """Return `numerical_rank` of the singular values of features of this shape and type: (…, r) descending → (…)."""
    return (values > values[..., :1] * max(shape[-2:]) * torch.finfo(dtype).eps).sum(-1)


def activity_scores(activations: Tensor) -> Tensor:
    """Return each unit's mean |h| over that of its layer, (units,) float64 (Sokar et al. 2023, as FIRE's Theorem 4).

    score_i = mean|h_i| / (mean over units of mean|h| + 1e-9). The denominator is the layer's *mean*, as in the released
    code, so that scores average to 1. Sokar et al. can also be read as dividing by a sum, which would make a threshold
    depend on the layer's width. A dead layer scores 0 everywhere.

    Units are dimension 1 of a tensor with four dimensions or more (convolutions: mean over batch and space), and the
    last dimension of a (n, d) or (N, T, D) one (mean over batch and tokens).

    Raises ValueError for non-finite activations.
    """
    if not activations.isfinite().all():
        raise ValueError("activity_scores: activations hold NaN or infinity; they must be finite")
    return member_scores(activations[None])[0]


def member_scores(activations: Tensor) -> Tensor:
    """Return `activity_scores` of each network of a stack: (members, n, …) → (members, units).

    Layers with activations that are not finite have NaN.
    """
    units_dim = 2 if activations.dim() >= 5 else activations.dim() - 1
    reduced = [dim for dim in range(1, activations.dim()) if dim != units_dim]
    return units.activity_scores(activations.detach().abs().mean(reduced, dtype=torch.float64))


def zero_or_nan(values: Tensor) -> Tensor:
    """Return 0 for each network with only finite values, else NaN, to be added: (members, …) → (members,) float64."""
    return 0 * values.detach().flatten(1).sum(1, dtype=torch.float64)


@overload
def dormant_fraction(activations: Activations, tau: float = ..., per_layer: Literal[False] = ...) -> float: ...
@overload
def dormant_fraction(activations: Activations, tau: float = ..., *, per_layer: Literal[True]) -> dict[str, float]: ...
def dormant_fraction(activations: Activations, tau: float = 0.0, per_layer: bool = False) -> float | dict[str, float]:
    """Return the fraction of units whose activity score is at most tau, in [0, 1] (Sokar et al. 2023).

    Args:
        activations: Outputs *after* the nonlinearity, (n, units), for one layer or as a sequence or mapping of layers;
            other shapes and the score as in `activity_scores`. Units of all layers are pooled, so a wide layer weighs
            more than a narrow one.
        tau: The threshold. 0 counts the units that are exactly zero on every input; Sokar et al. use 0.025.
        per_layer: Return a dict of each layer's own fraction instead. The layers of a sequence are named "0", "1", …

    Raises:
        ValueError: Activations are not finite.

    Examples:
        >>> import torch
        >>> from supple.metrics import dormant_fraction
        >>> first = torch.tensor([[0.0, 1.0], [0.0, 3.0]])  # two inputs, two units
        >>> dormant_fraction(first)
        0.5
        >>> dormant_fraction({"first": first, "second": torch.ones(2, 2)}, per_layer=True)
        {'first': 0.5, 'second': 0.0}
    """
    if isinstance(activations, Tensor):
        activations = [activations]
    if not isinstance(activations, Mapping):
        activations = {str(index): layer for index, layer in enumerate(activations)}
    dormant = [activity_scores(layer) <= tau for layer in activations.values()]
    if per_layer:
        fractions = torch.stack([layer.double().mean() for layer in dormant]).tolist()
        return dict(zip(activations, fractions, strict=True))
    return torch.cat(dormant).double().mean().item()


@torch.no_grad()
def feature_covariance_distance(features_a: Tensor, features_b: Tensor) -> float:
    """Return ‖C_a − C_b‖_F of the normalised feature covariances C = HHᵀ/‖H‖²_F, (n, n) (FIRE, Theorem 1).

    Computed in float64. If n exceeds both widths, the n×n matrices are never formed, and distances below about 1e-8 are
    rounding.

    Args:
        features_a, features_b: (n, d_a) and (n, d_b), whose rows belong to the same n inputs.

    Returns:
        A float in [0, √2]: 0 if the similarities of the inputs agree (for example after a rotation or scaling of the
        features), √2 if each network's features vanish wherever the other's do not. NaN where C is undefined: if either
        is all zero, or not finite.
    """
    a, b = (feature_matrices(f[None])[0] for f in (features_a, features_b))
    a, b = a / torch.linalg.matrix_norm(a), b / torch.linalg.matrix_norm(b)
    if len(a) <= max(a.shape[1], b.shape[1]):
        return torch.linalg.matrix_norm(a @ a.T - b @ b.T).item()
    # ‖AAᵀ − BBᵀ‖² = ‖AᵀA‖² + ‖BᵀB‖² − 2‖AᵀB‖², by the cyclic trace.
    squared = (a.T @ a).square().sum() + (b.T @ b).square().sum() - 2 * (a.T @ b).square().sum()
    return squared.clamp(min=0).sqrt().item()


def _singular_values(features: Tensor, caller: str) -> tuple[Tensor, torch.Size]:
    values, shape = spectra(features[None])
    if values.isnan().any():
        raise ValueError(f"{caller}: features hold NaN or infinity; they must be finite")
    return values[0], shape


def spectra(features: Tensor) -> tuple[Tensor, torch.Size]:
    """Return the singular values of features, (members, n, …) → (members, r) float64, and the shape of the matrices.

    They are descending. A network with features that are not finite has NaN. They come from an SVD. The eigenvalues of
    the Gram matrix would take half the time, but lose everything below 1e-8 of the largest value, and half of the
    digits just above that.
    """
    matrices = feature_matrices(features)
    values = torch.linalg.svdvals(matrices.nan_to_num(0.0, 0.0, 0.0))  # which raises an error for NaN in any of them
    return values + zero_or_nan(matrices)[:, None], matrices.shape


def feature_matrices(features: Tensor) -> Tensor:
    """Return features of each network of a stack, (members, n, …) → float64 (members, rows, columns).

    A network's (n, d), (N, T, D) or (N, C, H, W) is read as described in the module's docstring.
    """
    return (features.flatten(1, 2) if features.dim() == 4 else features.flatten(2)).detach().double()
