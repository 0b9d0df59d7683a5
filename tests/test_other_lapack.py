"""Results do not hang on what LAPACK is free to choose, and what differs from one processor to the next.

A decomposition leaves open the signs of its vectors, any rotation among those of equal singular values or eigenvalues,
and all vectors of a null space; each library rounds in its own way, which alone turns the last two. `another_lapack`
makes those choices at random.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import Tensor

EPS = torch.finfo(torch.float64).eps
svd_of, qr_of, eigh_of = torch.linalg.svd, torch.linalg.qr, torch.linalg.eigh


class Chooser:
    """Decompositions of torch.linalg and np.linalg with every free choice made by a generator."""

    def __init__(self, seed: int) -> None:
        self.seed, self.generator = seed, torch.Generator()

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def rotation(self, size: int) -> Tensor:
        return qr_of(self.normal(size, size)).Q * self.normal(size).sign()

    def rounded(self, a: Tensor) -> Tensor:
        """A backward error, relative to each column, as every library has one; the same for the same matrix."""
        self.generator.manual_seed(self.seed)
        return a + torch.finfo(a.dtype).eps / 4 * torch.linalg.vector_norm(a, dim=0) * self.normal(*a.shape).to(a)

    def groups(self, values: Tensor, size: int) -> Iterator[slice]:
        """Places of equal values, in descending order of size; those of 0 go on to the end of a full basis."""
        near = 20 * size * torch.finfo(values.dtype).eps * float(values.abs().max())
        cuts = [0, *(1 + i for i in range(len(values) - 1) if abs(values[i] - values[i + 1]) > near), len(values)]
        yield from (slice(*pair) for pair in zip(cuts, cuts[1:], strict=False))

    def svd(self, a: Tensor, full_matrices: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        if a.ndim > 2:
            return self.each(a, lambda part: self.svd(part, full_matrices))
        u, s, vt = svd_of(self.rounded(a), full_matrices=True)
        m, n = a.shape
        near = 20 * max(m, n) * torch.finfo(s.dtype).eps * float(s.max()) if len(s) else 0.0
        rank = int((s > near).sum())
        u, vt = u.clone(), vt.clone()
        for group in self.groups(s[:rank], max(m, n)) if rank else ():
            turn = self.rotation(group.stop - group.start).to(a)
            u[:, group], vt[group] = u[:, group] @ turn, turn.T @ vt[group]
        u[:, rank:] = u[:, rank:] @ self.rotation(m - rank).to(a)
        vt[rank:] = self.rotation(n - rank).to(a) @ vt[rank:]
        k = len(s)
        return torch.return_types.linalg_svd((u, s, vt) if full_matrices else (u[:, :k], s, vt[:k]))

    def eigh(self, a: Tensor) -> tuple[Tensor, Tensor]:
        if a.ndim > 2:
            return self.each(a, self.eigh)
        values, vectors = eigh_of(self.rounded(a))
        for group in self.groups(values, len(a)):
            vectors[:, group] = vectors[:, group] @ self.rotation(group.stop - group.start).to(a)
        return torch.return_types.linalg_eigh((values, vectors))

    def qr(self, a: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
        if a.ndim > 2:
            return self.each(a, lambda part: self.qr(part, mode))
        q, r = qr_of(self.rounded(a), mode=mode)
        signs = self.normal(len(r)).sign().to(a)
        return torch.return_types.linalg_qr((q * signs if mode != "r" else q, r * signs[:, None]))

    def each(self, a: Tensor, decompose: Callable[[Tensor], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        found = [decompose(part) for part in a.flatten(0, -3)]
        kind = type(found[0])
        return kind([torch.stack(parts).unflatten(0, a.shape[:-2]) for parts in zip(*found, strict=True)])

    def of_arrays(self, decompose: Callable[..., tuple[Tensor, ...]]) -> Callable[..., tuple[np.ndarray, ...]]:
        return lambda a, *rest, **named: tuple(
            part.numpy() for part in decompose(torch.as_tensor(np.array(a, float)), *rest, **named)
        )


@contextmanager
def another_lapack(seed: int) -> Iterator[None]:
    """Let torch.linalg and np.linalg make other choices than LAPACK's own, all of them valid."""
    chooser = Chooser(seed)

    def np_svd(a: np.ndarray, full_matrices: bool = True, compute_uv: bool = True) -> object:
        u, s, vt = chooser.of_arrays(chooser.svd)(a, full_matrices=full_matrices)
        return (u, s, vt) if compute_uv else s

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.linalg, "svd", chooser.svd)
        patch.setattr(torch.linalg, "qr", chooser.qr)
        patch.setattr(torch.linalg, "eigh", chooser.eigh)
        patch.setattr(np.linalg, "svd", np_svd)
        patch.setattr(np.linalg, "qr", chooser.of_arrays(chooser.qr))
        patch.setattr(np.linalg, "eigh", chooser.of_arrays(chooser.eigh))
        yield
