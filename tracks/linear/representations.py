"""The representations of a deep linear network, computed from QQᵀ: similarities, tangent kernel, and their limits.

QQᵀ = [[W₁ᵀW₁, (W₂W₁)ᵀ], [W₂W₁, W₂W₂ᵀ]] (eq. 3) determines the hidden layer up to a rotation of its units. The
representational similarities (eq. 4) and the neural tangent kernel (eq. 5) of Dominé et al. do not depend on this
rotation.
"""

from typing import NamedTuple

import numpy as np

from .weights import Array, singular_pair


class Quadrants(NamedTuple):
    """The blocks of QQᵀ, with its leading dimensions: W₁ᵀW₁ (…, N_i, N_i), W₂W₁ (…, N_o, N_i), W₂W₂ᵀ (…, N_o, N_o)."""

    w1tw1: Array
    w2w1: Array
    w2w2t: Array


def quadrants(qq: Array, n_in: int) -> Quadrants:
    """Return the quadrants of QQᵀ, (…, N_i + N_o, N_i + N_o), as views."""
    return Quadrants(qq[..., :n_in, :n_in], qq[..., n_in:, :n_in], qq[..., n_in:, n_in:])


def gram(W1: Array, W2: Array) -> Quadrants:
    """Return the quadrants of the weights W₁ (…, N_h, N_i) and W₂ (…, N_o, N_h)."""
    return Quadrants(W1.mT @ W1, W2 @ W1, W2 @ W2.mT)


def rsm_input(w1tw1: Array, x: Array) -> Array:
    """Return XᵀW₁ᵀW₁X, (…, P, P), the similarity of the hidden activity for P inputs x, (N_i, P) (eq. 4)."""
    return x.T @ w1tw1 @ x


def rsm_output(w2w2t: Array, y: Array) -> Array:
    """Return Yᵀ(W₂W₂ᵀ)⁺Y, (…, P, P), the similarity of the hidden activity that targets y, (N_o, P), need (eq. 4).

    Eigenvalues of W₂W₂ᵀ up to 1e-10 times the largest one count as 0. They are the squares of W₂'s singular values, so
    this removes singular values below 1e-5 of the largest one, and rounding errors in directions that W₂ does not reach
    (N_o > N_h).
    """
    return y.T @ np.linalg.pinv(w2w2t, rtol=1e-10, hermitian=True) @ y


def ntk(w1tw1: Array, w2w2t: Array, x: Array) -> Array:
    """Return the neural tangent kernel I ⊗ XᵀW₁ᵀW₁X + W₂W₂ᵀ ⊗ XᵀX, (…, N_o·P, N_o·P) (eq. 5).

    x: (N_i, P). Row o·P + p belongs to output o at input p. The entry of (o, p) and (o', p') is the inner product of
    the gradients of ŷ_o(x_p) and ŷ_o'(x_p') with respect to all weights.
    """
    outputs, samples = w2w2t.shape[-1], x.shape[-1]
    kernel = np.einsum("oO,...pP->...opOP", np.eye(outputs), rsm_input(w1tw1, x))
    kernel = kernel + np.einsum("...oO,pP->...opOP", w2w2t, x.T @ x)
    return kernel.reshape(*kernel.shape[:-4], outputs * samples, outputs * samples)


def ntk_distance(a: Quadrants, b: Quadrants) -> Array:
    """Return 1 − ⟨a, b⟩/‖a‖‖b‖ of two networks' tangent kernels for whitened inputs, without forming the kernels (E.7).

    It is in [0, 1], and computed as ½‖a/‖a‖ − b/‖b‖‖², which is equal to it and loses no digits if the kernels are
    similar. It is NaN for a network of zeros. Leading dimensions are broadcast. For XXᵀ = P·I, ‖NTK‖²/P² = N_o‖W₁ᵀW₁‖²
    + 2 tr(W₁ᵀW₁) tr(W₂W₂ᵀ) + N_i‖W₂W₂ᵀ‖², so the inputs cancel.
    """
    pairs = ((a[0], a[2]), (b[0], b[2]))
    first, second = ([part / _ntk_norm(*pair)[..., None, None] for part in pair] for pair in pairs)
    return np.asarray(_ntk_norm(first[0] - second[0], first[1] - second[1]) ** 2 / 2)


def converged_quadrants(sigma_yx: Array, lam: float) -> Quadrants:
    """Return the quadrants of a λ-balanced network with N_h = min(N_i, N_o) for t → ∞ (Theorem C.3).

    From any start that reaches the global minimum: W₁ᵀW₁ = Ṽ S₁² Ṽᵀ, W₂W₁ = Σyx, W₂W₂ᵀ = Ũ S₂² Ũᵀ, with S₁ and S₂ of
    `singular_pair`. The weights are those of `balanced_factors`, up to the rotation of the hidden units, which QQᵀ does
    not determine (Theorem 5.2). For λ = 0 and N_i = N_o, only starts with det(W₂W₁)·det(Σyx) > 0 reach the minimum,
    which are half of all random ones. The sign of the determinant is conserved, and the others converge to a saddle.
    The paper does not mention this.

    Raises ValueError if Σyx (N_o, N_i) does not determine all directions of the larger layer, which then depend on the
    start (use `Exact.limit`): if it has less than full rank, with N_o > N_i and λ > 0, or with N_i > N_o and λ < 0.
    """
    U, s, Vt = np.linalg.svd(sigma_yx, full_matrices=False)
    n_out, n_in = sigma_yx.shape
    open_side = (n_out > n_in and lam > 0) or (n_in > n_out and lam < 0)
    rank = int((s > s[0] * max(n_in, n_out) * np.finfo(np.float64).eps).sum())
    if open_side and rank < len(s):
        raise ValueError(f"Σyx has rank {rank} < {len(s)}: with λ = {lam} the limit depends on the start")
    s1, s2 = singular_pair(s, lam)
    return Quadrants((Vt.T * s1**2) @ Vt, np.array(sigma_yx), (U * s2**2) @ U.T)


def _ntk_norm(w1tw1: Array, w2w2t: Array) -> Array:
    """Return ‖I ⊗ XᵀW₁ᵀW₁X + W₂W₂ᵀ ⊗ XᵀX‖/P for whitened inputs. It is also a norm for differences of such pairs."""
    squares = [np.square(part).sum((-2, -1)) for part in (w1tw1, w2w2t)]
    traces = [np.trace(part, axis1=-2, axis2=-1) for part in (w1tw1, w2w2t)]
    total = w2w2t.shape[-1] * squares[0] + 2 * traces[0] * traces[1] + w1tw1.shape[-1] * squares[1]
    return np.sqrt(np.maximum(total, 0.0))
