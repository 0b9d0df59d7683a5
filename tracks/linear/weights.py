"""Two-layer linear networks ŷ = W₂W₁x, and initial weights whose layers differ in scale by a number λ.

    λ-balanced:  W₂ᵀW₂ − W₁W₁ᵀ = λ·I      (assumption A2; gradient flow conserves the left side, Theorem A.2)

With λ > 0 the second layer is the larger one. W₁ is (N_h, N_i) and W₂ is (N_o, N_h), as in the paper and in PyTorch.
Paper: "From lazy to rich: exact learning dynamics in deep linear networks" (Dominé et al. 2025).
"""

import math
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from supple.interventions.orthogonalize import complete_isometry

Array = NDArray[np.float64]
Random = np.random.Generator | int | None
Kind = Literal["lecun", "glorot", "he"]


def balanced_init(
    lam: float, n_in: int, n_hidden: int, n_out: int, scale: float = 1.0, rng: Random = None
) -> tuple[Array, Array]:
    """Return λ-balanced weights (W₁, W₂) whose product is that of two Gaussian matrices (Algorithm 1 of the paper).

    W₂W₁ = G₂G₁ with G ~ N(0, σ²), factored into W₂ = U·S₂·Rᵀ and W₁ = R·S₁·Vᵀ with a random rotation R of the hidden
    units. The residual ‖W₂ᵀW₂ − W₁W₁ᵀ − λI‖ is of the order of rounding.

    Possible sizes: W₂ᵀW₂ = W₁W₁ᵀ + λI has rank N_h if λ > 0, so N_o ≥ N_h is necessary and sufficient. λ < 0 requires
    N_i ≥ N_h. λ = 0 allows any sizes. Algorithm 1 is stricter than necessary: it rejects bottlenecks, as well as (N_o >
    N_i, λ < 0) and (N_i > N_o, λ > 0), which the paper itself uses in Figure 5. Where it allows N_h > min(N_i, N_o), it
    sets the singular values beyond the product's rank to 0. λ-balance needs √|λ| there, which is used here.

    Args:
        lam: λ, any finite number.
        n_in: N_i, the number of inputs.
        n_hidden: N_h, the number of hidden units.
        n_out: N_o, the number of outputs.
        scale: σ > 0, the standard deviation of the Gaussian matrices.
        rng: A generator, a seed, or None for a new generator.

    Returns:
        W₁, (N_h, N_i), and W₂, (N_o, N_h).

    Raises ValueError if no weights of these sizes can have this λ.

    Examples:
        >>> import numpy as np
        >>> from supple.tracks.linear import balanced_init
        >>> W1, W2 = balanced_init(2.0, n_in=4, n_hidden=3, n_out=5, rng=0)
        >>> W1.shape, W2.shape
        ((3, 4), (5, 3))
        >>> np.allclose(W2.T @ W2 - W1 @ W1.T, 2.0 * np.eye(3))
        True
    """
    check_sizes(lam, n_in, n_hidden, n_out)
    rng = np.random.default_rng(rng)
    first = rng.normal(0.0, scale, (n_hidden, n_in))
    second = rng.normal(0.0, scale, (n_out, n_hidden))
    return balanced_factors(second @ first, n_hidden, lam, random_rotation(n_hidden, rng))


def aligned_init(sigma_yx: ArrayLike, start: ArrayLike, lam: float, rng: Random = None) -> tuple[Array, Array]:
    """Return λ-balanced weights that are aligned with a task: W₂W₁ = Ũ·diag(start)·Ṽᵀ (Theorem 5.1).

    N_h = min(N_i, N_o).

    Args:
        sigma_yx: (N_o, N_i), the input–output correlation of the task.
        start: The initial singular values, (N_h,) or one number. A negative one belongs to a direction that the task
            reverses.
    """
    sigma, start = np.asarray(sigma_yx, float), np.asarray(start, float)
    hidden = min(sigma.shape)
    left, _, right = np.linalg.svd(sigma, full_matrices=False)
    start = np.broadcast_to(start, (hidden,))
    # singular vectors of the target in the target's order, whatever the order of the starting values
    first, second = singular_pair(np.abs(start), lam)
    rotation = random_rotation(hidden, np.random.default_rng(rng))
    signs = np.where(start < 0, -1.0, 1.0)
    return (rotation * first) @ right, (left * (signs * second)) @ rotation.T


def random_init(n_in: int, n_hidden: int, n_out: int, kind: Kind = "lecun", rng: Random = None) -> tuple[Array, Array]:
    """Return Gaussian weights (W₁, W₂), (n_hidden, n_in) and (n_out, n_hidden), by a common rule.

    Wide layers become λ-balanced, with λ from `expected_balance` (Theorem A.3).

    Args:
        n_in: N_i.
        n_hidden: N_h.
        n_out: N_o.
        kind: The variance of the weights: 1/fan_in (lecun), 2/(fan_in + fan_out) (glorot) or 2/fan_in (he).
        rng: A generator, a seed, or None for a new generator.
    """
    rng = np.random.default_rng(rng)
    first, second = np.sqrt(_variances(n_in, n_hidden, n_out, kind))
    return rng.normal(0.0, first, (n_hidden, n_in)), rng.normal(0.0, second, (n_out, n_hidden))


def expected_balance(n_in: int, n_hidden: int, n_out: int, kind: Kind = "lecun") -> float:
    """Return the λ of the expectation of W₂ᵀW₂ − W₁W₁ᵀ = λI: N_o·Var(w₂) − N_i·Var(w₁) (Table 1).

    Args:
        n_in: N_i.
        n_hidden: N_h.
        n_out: N_o.
        kind: The rule of `random_init`.
    """
    first, second = _variances(n_in, n_hidden, n_out, kind)
    return n_out * second - n_in * first


def _variances(n_in: int, n_hidden: int, n_out: int, kind: Kind) -> tuple[float, float]:
    return {
        "lecun": (1 / n_in, 1 / n_hidden),
        "he": (2 / n_in, 2 / n_hidden),
        "glorot": (2 / (n_in + n_hidden), 2 / (n_hidden + n_out)),
    }[kind]


def balanced_factors(function: ArrayLike, n_hidden: int, lam: float, rotation: Array) -> tuple[Array, Array]:
    """Return the λ-balanced (W₁, W₂) whose product is a given function.

    Args:
        function: W₂W₁, (N_o, N_i), of rank at most N_h.
        n_hidden: N_h.
        lam: λ.
        rotation: R, (N_h, N_h), orthogonal. It is all that the product and λ do not determine, except for directions in
            which the product has no part. These lie near the coordinate axes. The signs of the product's singular
            vectors, which LAPACK chooses, count as a part of R. QQᵀ does not depend on them.

    Raises ValueError for sizes that λ does not allow, and for a product of a higher rank.
    """
    function = np.asarray(function, float)
    n_out, n_in = function.shape
    check_sizes(lam, n_in, n_hidden, n_out)
    left, values, right = np.linalg.svd(function)
    rank = int((values > 1e-12 * values[0]).sum())
    if rank > n_hidden:
        raise ValueError(f"a product of rank above {n_hidden} does not pass through {n_hidden} hidden units")
    # of the hidden units beyond the rank, one layer has √|λ| and the other one 0
    small, large = singular_pair(np.pad(values[:rank], (0, n_hidden - rank)), lam)
    u, v = (np.pad(basis[:, :rank], ((0, 0), (0, n_hidden - rank))) for basis in (left, right.T))
    if lam > 0:
        u = complete_isometry(torch.from_numpy(u)).numpy()
    elif lam < 0:
        v = complete_isometry(torch.from_numpy(v)).numpy()
    return (rotation * small) @ v.T, (u * large) @ rotation.T


def singular_pair(values: ArrayLike, lam: ArrayLike) -> tuple[Array, Array]:
    """Return (s₁, s₂) ≥ 0 with s₁s₂ = s and s₂² − s₁² = λ (eq. 18), the singular values of W₁ and W₂ if W₂W₁ has s ≥ 0.

    values: s. It is broadcast with lam."""
    values, lam = np.broadcast_arrays(np.asarray(values, float), np.asarray(lam, float))
    larger = np.sqrt((np.hypot(2 * values, lam) + np.abs(lam)) / 2)
    # not √((√(λ² + 4s²) − |λ|)/2), which loses all digits where s ≪ |λ|
    smaller = np.divide(values, larger, out=np.zeros_like(larger), where=larger > 0)
    return np.where(lam < 0, larger, smaller), np.where(lam < 0, smaller, larger)


def balance(first: ArrayLike, second: ArrayLike) -> Array:
    """Return W₂ᵀW₂ − W₁W₁ᵀ, (…, N_h, N_h). It is λI if the weights are λ-balanced (eq. 19)."""
    w1, w2 = np.asarray(first, float), np.asarray(second, float)
    return w2.mT @ w2 - w1 @ w1.mT


def balance_residual(first: ArrayLike, second: ArrayLike, lam: float) -> float:
    """Return ‖W₂ᵀW₂ − W₁W₁ᵀ − λI‖_F ≥ 0. For several networks (leading dimensions), it is the largest one."""
    deviation = balance(first, second)
    deviation -= lam * np.eye(deviation.shape[-1])
    return float(np.linalg.norm(deviation, axis=(-2, -1)).max())


def random_rotation(size: int, rng: Random = None) -> Array:
    """Return an orthogonal (size, size) matrix, uniformly distributed (Haar)."""
    q, r = np.linalg.qr(np.random.default_rng(rng).normal(size=(size, size)))
    return q * np.where(np.diag(r) < 0, -1.0, 1.0)


def check_sizes(lam: float, n_in: int, n_hidden: int, n_out: int) -> None:
    """Raise ValueError if no network of these sizes can be λ-balanced with this λ.

    Args:
        lam: λ, which has to be finite.
        n_in: N_i ≥ 1.
        n_hidden: N_h ≥ 1; at most N_o if λ > 0, and at most N_i if λ < 0.
        n_out: N_o ≥ 1.
    """
    if not math.isfinite(lam):
        raise ValueError(f"λ must be a finite number, got {lam}")
    least, name, gram = (n_out, "n_out", "W2ᵀW2 = W1W1ᵀ + λI") if lam > 0 else (n_in, "n_in", "W1W1ᵀ = W2ᵀW2 + |λ|I")
    if lam and n_hidden > least:
        raise ValueError(
            f"no λ-balanced network has λ = {lam:g} {'>' if lam > 0 else '<'} 0 with n_hidden = {n_hidden} > "
            f"{name} = {least}: {gram} has rank {n_hidden}, but at most {name}"
        )
