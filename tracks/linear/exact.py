"""The exact learning dynamics of a two-layer linear network under gradient flow (Theorem 4.3 of the paper).

With Q = [W₁ᵀ; W₂], (N_i + N_o, N_h), whitened inputs and λ-balanced weights, QQᵀ follows a Riccati equation (Lemma
4.1):

    τ d(QQᵀ)/dt = F·QQᵀ + QQᵀ·F − (QQᵀ)²,     F = [−λ/2·I  Σyxᵀ; Σyx  λ/2·I] = P·Λ·Pᵀ

    QQᵀ(t) = P·e^{Λt/τ}·Y·(I + Yᵀ·Φ(t)·Y)⁻¹·Yᵀ·e^{Λt/τ}·Pᵀ,     Y = PᵀQ(0),  Φ = (e^{2Λt/τ} − I)/(2Λ)     (eq. 7)

This holds for any N_i, N_h, N_o. Assumption A3 (N_h = min(N_i, N_o)) is needed only for the form of Theorem 4.3.

How it is computed: as printed, e^{Λt} overflows. Appendix B.5 avoids this if B is invertible. Here, the eigenvalues are
sorted in descending order, and the hidden units are rotated until Y = T·Rᵀ is in echelon form, where each column j
begins at its own row p_j (one LQ decomposition). QQᵀ does not depend on R, and column j may be divided by e^{Λ_{p_j}t}
if that grows. The remaining factors are e^{(Λ_i − Λ_{p_j})t} with i ≥ p_j, which are all ≤ 1. B needs no property for
this. If the initial weights have no part in a direction of the task, that direction has no pivot, or one with Λ < 0,
and the network decays to the saddle (reversal learning at λ = 0). The cost is one SVD of Σyx and one decomposition of Y
for all times, and one Cholesky decomposition (N_h, N_h) for each time.

An error of the paper that matters here (tests/tracks/linear/test_exact_printed.py): the last term of eq. 15 must be
(e^{2λ⊥t/τ} − I)/(2λ⊥). The same holds for eqs. 58–82.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from .checks import check_network, rescale_times
from .weights import Array, balance, balance_residual

# ‖W₂ᵀW₂ − W₁W₁ᵀ − λI‖ over ‖W₁‖² + ‖W₂‖², above which weights are not λ-balanced; float32's rounding stays below
BALANCED = 1e-6
ZERO = 1e-14  # a part of the initialisation smaller than this, relative to all of it, is rounding: it counts as zero
DEPENDENT = 1e-2  # columns that lie within this angle of the span of the others are decomposed anew, by QR
CHUNK = 1 << 18  # numbers of a factor that are worked on at once, so that they stay in the cache


def exact_qq(W1: ArrayLike, W2: ArrayLike, sigma_yx: ArrayLike, times: ArrayLike, tau: float = 1.0) -> Array:
    """Return QQᵀ(t) = [W₁ᵀW₁, W₁ᵀW₂ᵀ; W₂W₁, W₂W₂ᵀ] under gradient flow from λ-balanced weights, (T, N_i+N_o, N_i+N_o).

    `Exact` computes single blocks of it with less work.

    Args:
        W1: (N_h, N_i).
        W2: (N_o, N_h).
        sigma_yx: (N_o, N_i), of whitened inputs.
        times: (T,), finite and ≥ 0, in any order.
        tau: The time constant τ = 1/η > 0.

    Raises ValueError if the shapes do not match, a number is not finite, or the weights are not λ-balanced.

    Examples:
        >>> import numpy as np
        >>> from supple.tracks.linear import balanced_init, exact_qq
        >>> W1, W2 = balanced_init(1.0, n_in=2, n_hidden=2, n_out=3, scale=0.1, rng=0)
        >>> sigma_yx = np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
        >>> qq = exact_qq(W1, W2, sigma_yx, times=[0.0, 50.0])
        >>> qq.shape
        (2, 5, 5)
        >>> np.allclose(qq[0, 2:, :2], W2 @ W1)  # the network function at the start
        True
        >>> np.allclose(qq[1, 2:, :2], sigma_yx)  # and when the task is learned
        True
    """
    return Exact(W1, W2, sigma_yx, tau).qq(times)


class Exact:
    """The exact solution for one network and one task, which can be evaluated at many times.

    A part of Q(0) along an eigenvector is set to zero if it is smaller than 1e-14·‖Q(0)‖. A network on a separatrix
    therefore stays on it, whereas rounding lets a numerical integration leave it after some time. The weights may have
    the rounding error of float32.

    Args:
        W1: (N_h, N_i).
        W2: (N_o, N_h).
        sigma_yx: (N_o, N_i), of whitened inputs.
        tau: The time constant τ = 1/η > 0.

    Attributes:
        lam: The λ of the given weights.

    Raises ValueError if the shapes do not match, a number is not finite, or the weights are not λ-balanced. Its methods
    raise it for a tau or times that are none.
    """

    def __init__(self, W1: ArrayLike, W2: ArrayLike, sigma_yx: ArrayLike, tau: float = 1.0) -> None:
        w1, w2, sigma = check_network(W1, W2, sigma_yx)
        self.n_in, self.n_out, self.tau = w1.shape[1], w2.shape[0], tau
        self.lam = float(np.trace(balance(w1, w2))) / len(w1)
        size = float(np.square(w1).sum() + np.square(w2).sum())
        if (residual := balance_residual(w1, w2, self.lam)) > BALANCED * size:
            raise ValueError(
                f"the weights are not λ-balanced: W2ᵀW2 − W1W1ᵀ differs from {self.lam:.3g}·I by {residual:.1e}"
            )
        values, vectors = eigensystem(sigma, self.lam)
        start, pivots = _echelon(vectors.T @ np.concatenate([w1.T, w2]), ZERO * math.sqrt(size))
        self._values, self._pivots = torch.from_numpy(values), torch.from_numpy(pivots)
        self._vectors, self._start = torch.from_numpy(vectors), torch.from_numpy(start.T.copy())  # Tᵀ: (rank, n)

    def qq(self, times: ArrayLike) -> Array:
        """Return QQᵀ, (T, N_i+N_o, N_i+N_o), symmetric and positive semidefinite."""
        size = self.n_in + self.n_out
        return self._evaluate(times, (size, size), lambda factor: factor.mT @ factor)

    def function(self, times: ArrayLike) -> Array:
        """Return the network function W₂W₁, (T, N_o, N_i)."""
        n_in = self.n_in
        return self._evaluate(times, (self.n_out, n_in), lambda factor: factor[..., n_in:].mT @ factor[..., :n_in])

    def factor(self, times: ArrayLike) -> Array:
        """Return L with QQᵀ = L·Lᵀ, (T, N_i+N_o, rank).

        L is [W₁ᵀ; W₂] up to a rotation of the hidden units. Columns of zeros are left out, so rank ≤ N_h."""
        shape = (self.n_in + self.n_out, self._start.shape[0])
        return self._evaluate(times, shape, lambda factor: factor.mT)

    def limit(self) -> Array:
        """Return QQᵀ for t → ∞, (N_i+N_o, N_i+N_o).

        It is 2Λ times the projection onto the directions with Λ > 0 in which the initial weights have a part."""
        values, near = self._values.numpy(), 1e-12 * float(self._values.abs().max())
        out = np.zeros((len(values), len(values)))
        done = 0
        for pivot in self._pivots.tolist():
            if values[pivot] <= near or pivot < done:
                continue
            group = np.flatnonzero(np.abs(values - values[pivot]) <= near)  # equal eigenvalues: any basis of them
            done = group[-1] + 1
            begun = np.isin(self._pivots.numpy(), group)
            basis, _ = np.linalg.qr(self._vectors.numpy()[:, group] @ self._start.numpy()[np.ix_(begun, group)].T)
            out += 2 * values[pivot] * basis @ basis.T
        return out

    def _evaluate(self, times: ArrayLike, shape: tuple[int, int], read: Callable[[Tensor], Tensor]) -> Array:
        """Return `read` of Lᵀ, (times, rank, N_i+N_o), at many times: (T, *shape)."""
        checked = np.atleast_1d(rescale_times(self.tau, times))
        result = np.empty((len(checked), *shape))  # numpy asks for large pages, torch does not
        out = torch.from_numpy(result)
        chunk = max(1, CHUNK // max(1, self._start.numel()))

        def evaluate(time: Tensor, part: Tensor) -> None:
            factor = self._rotated(time[:, None, None])
            part.copy_(read((factor.flatten(0, 1) @ self._vectors.T).view(factor.shape)))

        # PyTorch decomposes the matrices of a batch one after the other: so a chunk on each of its threads
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(evaluate, torch.from_numpy(checked).split(chunk), out.split(chunk)))
        finally:
            torch.set_num_threads(threads)
        return result

    def _rotated(self, time: Tensor) -> Tensor:
        """Return a transposed root of PᵀQQᵀP: B⁻¹·Tᵀe^{Λt} with B·Bᵀ = I + TᵀΦT, (times, rank, N_i+N_o).

        time: (times, 1, 1). Row j is divided by e^{Λ_{p_j}t} if that grows, and then by its length in √(I + TᵀΦT), on
        both sides."""
        begun, values = self._start, self._values
        speed = values[self._pivots].clamp(min=0)[:, None]
        left = torch.exp(-speed * time)  # of √I, (times, rank, 1)
        rate = 2 * values.abs()
        passed = torch.where(rate > 0, -torch.expm1(-rate * time) / rate.clamp(min=1e-300), time).sqrt()  # of √Φ
        above = torch.exp((values.clamp(min=0) - speed).clamp(max=0) * time).mul_(begun)
        rows = above * torch.exp(values.clamp(max=0) * time)  # what decays counts in Φ as if it did not
        above.mul_(passed)
        gram = torch.bmm(above, above.mT)
        gram.diagonal(dim1=1, dim2=2).add_(left[..., 0].square())
        unit = gram.diagonal(dim1=1, dim2=2).rsqrt()[..., None]
        root, failed = torch.linalg.cholesky_ex(gram.mul_(unit).mul_(unit.mT))
        close = (root.diagonal(dim1=1, dim2=2) < DEPENDENT).any(1) | (failed > 0)
        if close.any():  # QR does not square how close they are
            stacked = torch.cat([(above * unit)[close].mT, torch.diag_embed((left * unit)[close, :, 0])], 1)
            root[close] = torch.linalg.qr(stacked, mode="r").R.mT
        return torch.linalg.solve_triangular(root, rows.mul_(unit), upper=False)


def eigensystem(sigma_yx: Array, lam: float) -> tuple[Array, Array]:
    """Return Λ, (N_i+N_o,) in descending order, and P, orthogonal: the eigenvalues and eigenvectors of F (Lemma 4.2).

    The eigenvalues are ±√(s̃² + λ²/4) for each singular value s̃ of Σyx, and ±λ/2 for the |N_o − N_i| other directions.
    They are computed from the SVD of Σyx in a form without cancellation for s̃ ≪ |λ|, which also holds for singular Σyx
    and for λ = 0.
    """
    n_out, n_in = sigma_yx.shape
    left, values, right = np.linalg.svd(sigma_yx)
    rank = len(values)
    u, v = left[:, :rank], right[:rank].T
    paired = np.hypot(values, lam / 2)
    # cos and sin of the angle between an eigenvector and the output space: (G ± HG)/√2 of eq. 9
    large = np.sqrt((1 + np.divide(abs(lam) / 2, paired, out=np.zeros(rank), where=paired > 0)) / 2)
    small = np.divide(values, 2 * paired * large, out=np.full(rank, math.sqrt(0.5)), where=paired > 0)
    to_input, to_output = (small, large) if lam >= 0 else (large, small)
    vectors = np.block(
        [
            [v * to_input, v * to_output, right[rank:].T, np.zeros((n_in, n_out - rank))],
            [u * to_output, -u * to_input, np.zeros((n_out, n_in - rank)), left[:, rank:]],
        ]
    )
    eigenvalues = np.concatenate([paired, -paired, np.full(n_in - rank, -lam / 2), np.full(n_out - rank, lam / 2)])
    order = np.argsort(-eigenvalues, kind="stable")
    return eigenvalues[order], vectors[:, order]


def _echelon(start: Array, zero: float) -> tuple[Array, Array]:
    """Return T with T·Tᵀ = Y·Yᵀ, (n, rank), whose column j begins at row pivots[j], and the ascending pivots, (rank,).

    A row adds a column if its distance from the span of the rows above it is larger than `zero`.
    """
    hidden = start.shape[1]
    basis = np.zeros((hidden, 0))
    pivots: list[int] = []
    for row, values in enumerate(start):
        rest = values - basis @ (basis.T @ values)
        rest -= basis @ (basis.T @ rest)  # once more, for what rounding left
        if len(pivots) < hidden and (norm := np.linalg.norm(rest)) > zero:
            basis = np.column_stack([basis, rest / norm])
            pivots.append(row)
    echelon = start @ basis
    echelon[np.arange(len(start))[:, None] < np.array(pivots, int)] = 0.0
    return echelon, np.array(pivots, int)
