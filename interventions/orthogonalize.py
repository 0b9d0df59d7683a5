"""The nearest isometry of a matrix, computed exactly by SVD or by odd matrix polynomials that need only products.

    W = UΣVᵀ  →  UVᵀ = W(WᵀW)^(−1/2) = argmin ‖W − X‖²_F subject to XᵀX = I      (the FIRE paper, eq. 5)

A step X ← aX + bX(XᵀX) + cX(XᵀX)² keeps the singular vectors and maps every singular value s to as + bs³ + cs⁵.
A method is a choice of (a, b, c) for each step that drives s to 1.
"""

import math

import torch
from torch import Tensor

from supple.registry import describe_unknown

Polynomial = tuple[float, float, float]  # (a, b, c) of as + bs³ + cs⁵

MAX_ITERATIONS = 100  # with `tolerance`; cubic steps need 41 even for a singular value of 1e-7


# Method → the polynomials of step 1, 2, …, of which the last is repeated.
METHODS: dict[str, tuple[Polynomial, ...]] = {
    "newton_schulz": ((1.5, -0.5, 0.0),),  # what the code released with FIRE ran everywhere
    "quintic": ((2.0, -1.5, 0.5),),  # FIRE, Appendix B.3
    "muon": ((3.4445, -4.7750, 2.0315),),  # oscillates around 1; FIRE, Figure 7
    "polar": (),  # exact, no iteration
    # Amsel et al. (2025, arXiv:2505.16932) for singular values in [7e-6, 1]: each is the odd quintic nearest to 1 in
    # the maximum norm (by Remez exchange) on the interval that its predecessor left, and the last is their limit,
    # (15s − 10s³ + 3s⁵)/8. Two guards against roundoff, in the spirit of the paper's: the lower end of an interval is
    # at least .02 of the upper, since other polynomials map some large values nearly to 0, where their direction is
    # lost (measured: ten times the error in float32); and the upper end is increased by 1e-3 of the error, beyond
    # which these polynomials diverge.
    "polar_express": (
        (7.703994023116034, -22.050406195480434, 16.170010128714107),
        (4.175172283880827, -3.5101700051074203, 0.7561026259454571),
        (4.1753425879676245, -3.510599571053614, 0.7562568501285022),
        (4.175342594914549, -3.510599588576876, 0.7562568564200182),
        (4.175342594914831, -3.510599588577593, 0.7562568564202754),
        (4.17534259491483, -3.510599588577589, 0.7562568564202741),
        (3.863475810073605, -3.151252663355615, 0.6726222264640427),
        (2.757257202099066, -2.0536381133607984, 0.46053005006778325),
        (1.9849450464338478, -1.367072152878847, 0.38665132408715136),
        (1.8753804408725134, -1.2504064414873386, 0.3750260744360337),
        (1.875, -1.25, 0.375),
    ),
}


class MatrixError(ValueError):
    """One matrix of a batch cannot be orthogonalized: `index` is its place among all of them, `reason` says why."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"matrix {index} of the batch {reason}")
        self.index, self.reason = index, reason


def check_method(method: str, steps: int, tolerance: float | None) -> None:
    """Raise ValueError, in one line, for an unknown method or for settings that it cannot meet."""
    if method not in METHODS:
        raise ValueError(describe_unknown("method", method, METHODS))
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    if tolerance is not None and not tolerance > 0:
        raise ValueError(f"tolerance must be above 0, got {tolerance}")
    if tolerance is not None and method == "muon":
        raise ValueError(f"tolerance={tolerance} cannot be met by method 'muon', which does not converge; use steps")


@torch.no_grad()
def orthogonalize(W: Tensor, method: str = "newton_schulz", steps: int = 10, tolerance: float | None = None) -> Tensor:
    """Return the nearest isometry of every matrix of W, unscaled.

    For m ≥ n the columns of the result are orthonormal, for m < n its rows.

    Ten `newton_schulz` steps, the default, are those that FIRE used, and do *not* reach an isometry for square
    matrices. A step increases a small singular value by a factor of 1.5 only, and division by ‖W‖_F makes it small. The
    remaining mean of (s² − 1)² is about 0.16 for a 512×512 Gaussian matrix (0.003 for 512×2048; about 0.8 for both
    after 5 steps). Measure it (`supple.metrics.dfi`), or use `tolerance`, `polar` or `polar_express`.

    `polar_express` starts from a tighter bound on the largest singular value than ‖W‖_F, and its polynomials are made
    for singular values from 7e-6 of that bound. Measured ‖X − P‖_F/‖P‖_F, P = `polar`, after 10 steps on 512×512 with
    log-spaced singular values: in float32 4e-6 for condition numbers to 1e2, 5e-6 for 1e3, 2e-5 for 1e4, 1.4e-4 for 1e5
    (the last two are roundoff and do not improve with more steps); in float64 3e-6 up to 1e5 (1e-12 after 12 steps);
    for 1e6 it is 0.13 in both, and more steps are needed. It is made for 10 steps: with fewer than 8, the singular
    values still fill [0.15, 1.85].

    `polar` replaces a singular value of 0, which has no nearest direction, by a direction near the coordinate axes
    (`complete_isometry`). The iterations leave it at 0.

    Args:
        W: (..., m, n), floating point. Half types are computed in float32.
        method: `newton_schulz` (cubic), `quintic`, `muon`, `polar` (SVD in float64, exact; ignores `steps` and
            `tolerance`) or `polar_express` (arXiv:2505.16932).
        steps: Number of iterations, at least 1.
        tolerance: Iterate, at most 100 times, until the per-dimension deviation from isometry, which is the mean of
            (s² − 1)² over the min(m, n) singular values, is at most this for every matrix. Replaces `steps`.

    Returns:
        A tensor of W's shape, dtype and device. No gradient flows through it.

    Raises:
        ValueError: W has fewer than two dimensions or is not floating point; a matrix is zero or not finite;
            the method is unknown; steps < 1; or the tolerance is not met.

    Examples:
        >>> import torch
        >>> from supple.interventions import orthogonalize
        >>> orthogonalize(torch.tensor([[3.0, 0.0], [0.0, 0.5]]), method="polar")
        tensor([[1., 0.],
                [0., 1.]])
        >>> isometry = orthogonalize(torch.ones(4, 2) + torch.eye(4, 2), tolerance=1e-9)
        >>> torch.allclose(isometry.T @ isometry, torch.eye(2), atol=1e-4)
        True
    """
    check_method(method, steps, tolerance)
    if W.ndim < 2 or not W.is_floating_point():
        raise ValueError(f"W must be real floating point (..., m, n), got {W.dtype} {tuple(W.shape)}")
    peak = torch.linalg.vector_norm(W, ord=math.inf, dim=(-2, -1), keepdim=True)
    for wrong, reason in ((~peak.isfinite(), "is not finite"), (peak == 0, "is zero")):
        if wrong.any():
            raise MatrixError(int(wrong.flatten().nonzero()[0]), reason)

    dtype = torch.float64 if method == "polar" or W.dtype == torch.float64 else torch.float32
    # dividing by the largest entry first keeps the squares in ‖W‖_F from under- or overflowing
    X = (W.to(dtype) / peak.to(dtype)).reshape(-1, *W.shape[-2:])
    wide = W.shape[-1] > W.shape[-2]
    X = X.mT if wide else X  # (B, N, k) with N ≥ k: the Gram matrix is the small one, k×k
    if method == "polar":
        rounding = torch.linalg.matrix_norm(X) * (max(X.shape[-2:]) * torch.finfo(X.dtype).eps)
        X = complete_isometry(polar(X, rounding))
    else:
        bound = _spectral_bound(X) if method == "polar_express" else torch.linalg.matrix_norm(X, keepdim=True)
        X = iterate(X / bound, method, steps, tolerance)
    return (X.mT if wide else X).reshape(W.shape).to(W.dtype)


def polar(X: Tensor, rounding: Tensor) -> Tensor:
    """Return UVᵀ of every X (…, N, k) = UΣVᵀ: a partial isometry, 0 for values of Σ up to `rounding` (…)."""
    U, s, Vh = torch.linalg.svd(X, full_matrices=False)
    return (U * (s > rounding[..., None])[..., None, :]) @ Vh


def complete_isometry(partial: Tensor) -> Tensor:
    """Return the isometries (…, N, k), N ≥ k, that extend partial ones and are nearest to the coordinate axes.

    If the missing directions are orthogonal to the axes, a fixed Gaussian matrix replaces the axes. The result
    therefore depends on the argument only, and not on the bases that LAPACK chose.
    """
    n, k = partial.shape[-2:]
    generator = torch.Generator().manual_seed(0)
    target = torch.eye(n, k, dtype=torch.float64)
    while (partial.square().sum((-2, -1)) < k - 0.5).any():
        rest = target.to(partial)
        rest = rest - partial @ (partial.mT @ rest)
        rest = rest - (rest @ partial.mT) @ partial
        partial = partial + polar(rest, rest.new_tensor(1e-3))
        target = torch.randn(n, k, generator=generator, dtype=torch.float64)
    return partial


def iterate(X: Tensor, method: str, steps: int, tolerance: float | None = None) -> Tensor:
    """Make polynomial steps on matrices whose singular values are at most 1, and return the result, (B, N, k).

    Each step is two or three batched products whose epilogues add the lower-order terms, between buffers that are
    allocated once. Nothing is checked, and without a tolerance nothing waits for the device.

    Args:
        X: (B, N, k), N ≥ k; overwritten.
        method, steps, tolerance: As in `orthogonalize`, but not `polar`.

    Raises:
        MatrixError: The tolerance is not met.
    """
    other = torch.empty_like(X)
    gram = X.new_empty(X.shape[0], X.shape[-1], X.shape[-1])
    mixed = torch.empty_like(gram)
    polynomials = METHODS[method]
    for step in range(steps if tolerance is None else MAX_ITERATIONS + 1):
        torch.bmm(X.mT, X, out=gram)
        if tolerance is not None and _is_isometric(gram, tolerance, last=step == MAX_ITERATIONS, method=method):
            break
        a, b, c = polynomials[min(step, len(polynomials) - 1)]
        if c:
            torch.baddbmm(gram, gram, gram, beta=b, alpha=c, out=mixed)  # bG + cG²
            torch.baddbmm(X, X, mixed, beta=a, out=other)
        else:
            torch.baddbmm(X, X, gram, beta=a, alpha=b, out=other)
        X, other = other, X
    return X


def _is_isometric(gram: Tensor, tolerance: float, last: bool, method: str) -> bool:
    """Return whether the per-dimension DfI ‖G − I‖²_F/k of every Gram matrix is within the tolerance."""
    k = gram.shape[-1]
    identity = torch.eye(k, dtype=gram.dtype, device=gram.device)
    worst, index = (torch.linalg.matrix_norm(gram - identity).square() / k).max(dim=0)
    met = bool(worst <= tolerance)
    if last and not met:
        reason = (
            f"is not within tolerance {tolerance:g} after {MAX_ITERATIONS} iterations of {method}: "
            f"its per-dimension DfI is {worst.item():.3g}; use method='polar'"
        )
        raise MatrixError(int(index), reason)
    return met


def _spectral_bound(X: Tensor) -> Tensor:
    """Return (Σ s¹⁶)^(1/16) of every matrix in X (B, N, k), as (B, 1, 1), an upper bound on its largest singular value.

    It is at most k^(1/16) times that value, whereas ‖X‖_F may be √k times it. It costs three products.
    """
    power = X
    bound = torch.ones_like(X[:, :1, :1])
    for exponent in (1, 1 / 2, 1 / 4, 1 / 8):  # X, XᵀX, (XᵀX)², (XᵀX)⁴, each of unit norm before it is squared
        norm = torch.linalg.matrix_norm(power, keepdim=True)
        bound = bound * norm**exponent
        if exponent > 1 / 8:
            power = power / norm
            power = power.mT @ power
    return bound
