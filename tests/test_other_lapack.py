"""Results do not hang on what LAPACK is free to choose, and what differs from one processor to the next.

A decomposition leaves open the signs of its vectors, any rotation among those of equal singular values or eigenvalues,
and all vectors of a null space; each library rounds in its own way, which alone turns the last two. `another_lapack`
decomposes the matrix after a random rotation, which changes all of these.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from supple.agents.initialization import draw_
from supple.interventions import fire_, orthogonalize, rebalance_
from supple.metrics import hessian_eigenvalues
from supple.tracks.linear import Exact, aligned_init, balanced_init, random_regression, reversal, semantic_hierarchy
from supple.tracks.linear.figures.fig4 import _signed_svd
from supple.tracks.linear.representations import converged_quadrants
from supple.tracks.linear.weights import balanced_factors, random_rotation

svd_of, qr_of, eigh_of = torch.linalg.svd, torch.linalg.qr, torch.linalg.eigh


class Chooser:
    """Decompositions of torch.linalg and np.linalg of a rotated matrix, turned back: every free choice is another."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def rotation(self, size: int, like: Tensor) -> Tensor:
        return qr_of(torch.randn(size, size, generator=self.generator, dtype=torch.float64)).Q.to(like)

    def svd(self, a: Tensor, full_matrices: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        left, right = self.rotation(a.shape[-2], a), self.rotation(a.shape[-1], a)
        u, s, vt = svd_of(left @ a @ right, full_matrices=full_matrices)
        return torch.return_types.linalg_svd((left.mT @ u, s, vt @ right.mT))

    def eigh(self, a: Tensor) -> tuple[Tensor, Tensor]:
        turn = self.rotation(a.shape[-1], a)
        values, vectors = eigh_of(turn @ a @ turn.mT)
        return torch.return_types.linalg_eigh((values, turn.mT @ vectors))

    def qr(self, a: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
        turn = self.rotation(a.shape[-2], a)
        q, r = qr_of(turn @ a, mode=mode)
        return torch.return_types.linalg_qr((turn.mT @ q if mode != "r" else q, r))

    def of_arrays(self, decompose: Callable[..., tuple[Tensor, ...]]) -> Callable[..., tuple[np.ndarray, ...]]:
        def decomposed(a: np.ndarray, *rest: object, **named: object) -> tuple[np.ndarray, ...]:
            return tuple(part.numpy() for part in decompose(torch.as_tensor(np.array(a, float)), *rest, **named))

        return decomposed


@contextmanager
def another_lapack(seed: int) -> Iterator[None]:
    """Let torch.linalg and np.linalg make other choices than LAPACK's own, all of them valid."""
    chooser = Chooser(seed)

    def np_svd(a: np.ndarray, full_matrices: bool = True, compute_uv: bool = True) -> object:
        u, s, vt = chooser.of_arrays(chooser.svd)(a, full_matrices=full_matrices)
        return (u, s, vt) if compute_uv else s

    with pytest.MonkeyPatch.context() as patch:
        for name in ("svd", "qr", "eigh"):
            patch.setattr(torch.linalg, name, getattr(chooser, name))
            patch.setattr(np.linalg, name, np_svd if name == "svd" else chooser.of_arrays(getattr(chooser, name)))
        yield


# -- what the library makes of them ----------------------------------------------------------------------------------

Parts = Callable[[], tuple[Tensor, ...]]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def of_rank(rank: int, *shape: int) -> Tensor:
    return draw(*shape[:-1], rank, seed=2) @ draw(*shape[:-2], rank, shape[-1], seed=3)


def rebalanced(lam: float, w1: Tensor, w2: Tensor) -> tuple[Tensor, ...]:
    w1, w2 = w1.clone(), w2.clone()
    rebalance_(w1, w2, lam)
    return w1, w2


PAIRS = {
    "full rank": (draw(4, 6), draw(5, 4)),
    "a stack": (draw(3, 4, 6), draw(3, 5, 4)),
    "few inputs": (draw(4, 2), draw(6, 4)),
    "low rank": (of_rank(2, 4, 6), draw(5, 4)),
    "low rank twice": (of_rank(1, 4, 6), of_rank(2, 5, 4)),
    "dead units": (draw(4, 6) * torch.tensor([[0.0], [1], [0], [1]]), draw(5, 4) * torch.tensor([0.0, 1, 1, 0])),
    "equal singular values": (torch.eye(4, 6).double(), 2 * torch.eye(5, 4).double()),
    "a fresh LoRA": (draw(4, 6), torch.zeros(5, 4).double()),
    "nothing": (torch.zeros(4, 6).double(), torch.zeros(5, 4).double()),
    "no axis left": (torch.zeros(2, 2).double(), torch.tensor([[0.0, 1], [0, 0]]).double()),
}


def fired() -> tuple[Tensor, ...]:
    net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).double()
    for layer in (net[0], net[2]):
        layer.weight.data = draw(*layer.weight.shape)
    net[2].weight.data[:, :4] = 0  # as after a reset of units
    fire_(net, method="polar")
    return net[0].weight.detach(), net[2].weight.detach()


def curvature() -> tuple[Tensor, ...]:
    net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    for p in net.parameters():
        p.data = draw(*p.shape)
    x, y = draw(30, 5), torch.arange(30) % 3
    return (hessian_eigenvalues(lambda: nn.functional.cross_entropy(net(x), y), net.parameters(), 4, tolerance=1e-7),)


def similarities(*weights: np.ndarray) -> tuple[Tensor, ...]:
    """QQᵀ."""
    q = np.concatenate([weights[0].T, weights[1]])
    return (torch.from_numpy(q @ q.T),)


def tensors(*arrays: np.ndarray) -> tuple[Tensor, ...]:
    return tuple(map(torch.from_numpy, arrays))


def solution(lam: float, n_in: int, n_out: int, sigma: np.ndarray) -> tuple[Tensor, ...]:
    hidden = min(n_in, n_out)
    exact = Exact(*balanced_factors(draw(n_out, n_in).numpy(), hidden, lam, np.eye(hidden)), sigma)
    factor = exact.factor([0.0, 1.0, 3.0])
    return tensors(exact.qq([0.0, 0.5, 2.0]), exact.function([1.0, 9.0]), factor @ factor.mT, exact.limit())


SIGMA, HIERARCHY = draw(5, 3).numpy(), semantic_hierarchy(0.0).sigma_yx


def orthogonal_layer() -> tuple[Tensor]:
    layer = nn.Linear(7, 4).double()
    draw_(layer, "orthogonal", torch.Generator().manual_seed(0))
    return (layer.weight.detach(),)


RESULTS: dict[str, Parts] = {
    **{
        f"rebalance, {name}, {lam}": lambda lam=lam, pair=pair: rebalanced(lam, *pair)
        for name, pair in PAIRS.items()
        for lam in (-0.7, 0.0, 0.7)
        if lam > 0 or pair[0].shape[-1] >= pair[0].shape[-2]
    },
    "polar": lambda: (orthogonalize(draw(3, 6, 4), "polar"),),
    "polar, low rank": lambda: (orthogonalize(of_rank(2, 3, 4, 6), "polar"),),
    "polar, a dead unit": lambda: (orthogonalize(torch.diag(torch.tensor([1.0, 0.0, 2.0]).double()), "polar"),),
    "fire, polar": fired,
    "curvature": curvature,
    "orthogonal layer": orthogonal_layer,
    "random_rotation": lambda: tensors(random_rotation(5, 1)),
    "whitened": lambda: tensors(random_regression(4, 3, 9, rng=0).x),
    "reversal": lambda: tensors(reversal(random_regression(4, 3, 9, rng=0)).y),
    "_signed_svd": lambda: tensors(*_signed_svd(SIGMA[:3])),
    "aligned_init": lambda: similarities(*aligned_init(SIGMA, [0.5, -0.2, 0.1], -2.0, 1)),
    **{
        f"balanced_init {sizes} {lam}": lambda lam=lam, sizes=sizes: similarities(*balanced_init(lam, *sizes, rng=1))
        for lam, sizes in [(0.0, (5, 9, 4)), (2.0, (3, 3, 5)), (2.0, (2, 4, 6)), (-2.0, (6, 4, 2)), (-2.0, (3, 2, 3))]
    },
    **{
        f"Exact {lam}": lambda lam=lam: (*solution(lam, 3, 5, SIGMA), *solution(lam, 8, 8, HIERARCHY))
        for lam in (-2.0, 0.0, 2.0)
    },
    "converged": lambda: tensors(*converged_quadrants(HIERARCHY, 0.5), *converged_quadrants(SIGMA, 2.0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("result", RESULTS)
def test_results_are_the_same_with_another_lapack(result: str) -> None:
    expected = RESULTS[result]()
    for seed in range(3):
        with another_lapack(seed):
            found = RESULTS[result]()
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


def test_the_other_lapack_makes_other_choices() -> None:
    a = of_rank(2, 6, 4)
    u, _, vt = svd_of(a)
    with another_lapack(1):
        for left, values, right in (torch.linalg.svd(a), tensors(*np.linalg.svd(a.numpy()))):
            torch.testing.assert_close(left[:, :4] * values @ right, a)
            assert (left - u).abs().max() > 0.1
            assert (right - vt).abs().max() > 0.1


def test_one_of_two_equal_directions_is_not_reversed() -> None:
    with pytest.raises(ValueError, match="no one direction to reverse"):
        reversal(semantic_hierarchy(0.0))
