import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from supple.interventions.orthogonalize import METHODS, orthogonalize
from tests.interventions.common import refused

ITERATIVE = [name for name in METHODS if name != "polar"]
CONVERGENT = [name for name in ITERATIVE if name != "muon"]
sides = st.integers(1, 9)
seeds = st.integers(0, 2**31)


def gaussian(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def isometry(m: int, n: int, seed: int) -> Tensor:
    if m < n:
        return isometry(n, m, seed).mT
    return torch.linalg.qr(gaussian(m, n, seed=seed)).Q


def with_spectrum(values: Tensor, m: int, n: int, seed: int) -> Tensor:
    k = min(m, n)
    return isometry(m, k, seed) * values @ isometry(n, k, seed + 1).mT


def dfi_per_dimension(X: Tensor) -> float:
    return (torch.linalg.svdvals(X.double()) ** 2 - 1).square().mean(-1).max().item()


@pytest.mark.parametrize("shape", [(5, 5), (7, 4), (4, 7), (2, 3, 6, 4)])
def test_polar_is_u_times_v_transposed_and_the_closed_form_of_equation_5(shape):
    W = gaussian(*shape)
    U, _, Vh = torch.linalg.svd(W, full_matrices=False)
    torch.testing.assert_close(orthogonalize(W, "polar"), U @ Vh)
    tall = W.mT if shape == (4, 7) else W
    values, vectors = torch.linalg.eigh(tall.mT @ tall)
    inverse_root = vectors * values.rsqrt()[..., None, :] @ vectors.mT
    torch.testing.assert_close(orthogonalize(tall, "polar"), tall @ inverse_root)


@pytest.mark.slow
@given(m=sides, n=sides, seed=seeds)
@settings(max_examples=15)
def test_no_other_isometry_is_nearer_than_polar(m, n, seed):
    W = gaussian(m, n, seed=seed)
    nearest = (W - orthogonalize(W, "polar")).norm()
    for other in range(20):
        assert nearest <= (W - isometry(m, n, seed + other)).norm() + 1e-9


@given(m=sides, n=sides, seed=seeds, method=st.sampled_from(list(METHODS)))
@settings(max_examples=40)
def test_rotating_the_matrix_rotates_the_result(m, n, seed, method):
    W = with_spectrum(torch.linspace(0.2, 1, min(m, n), dtype=torch.float64), m, n, seed)
    Q_m, Q_n = isometry(m, m, seed + 2), isometry(n, n, seed + 3)
    rotated = orthogonalize(Q_m @ W @ Q_n, method, steps=4)
    torch.testing.assert_close(rotated, Q_m @ orthogonalize(W, method, steps=4) @ Q_n, rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", ["newton_schulz", "quintic", "muon"])
def test_singular_vectors_stay_and_singular_values_follow_the_polynomial(method):
    values = torch.tensor([1.0, 0.5, 0.1, 0.01], dtype=torch.float64)
    U, V = isometry(6, 4, 1), isometry(4, 4, 2)
    X = orthogonalize(U * values @ V.mT, method, steps=7)
    a, b, c = METHODS[method][0]
    s = values / values.norm()
    for _ in range(7):
        s = a * s + b * s**3 + c * s**5
    torch.testing.assert_close(U.mT @ X @ V, torch.diag(s))


@pytest.mark.parametrize("method", METHODS)
def test_a_batch_equals_a_loop_and_transposing_commutes(method):
    W = gaussian(3, 6, 4)
    torch.testing.assert_close(orthogonalize(W, method), torch.stack([orthogonalize(w, method) for w in W]))
    torch.testing.assert_close(orthogonalize(W.mT, method), orthogonalize(W, method).mT)


@pytest.mark.parametrize("method", CONVERGENT)
@pytest.mark.parametrize("shape", [(6, 6), (9, 4), (4, 9)])
def test_every_method_but_muon_tends_to_polar(method, shape):
    values = torch.logspace(-3, 0, 4, dtype=torch.float64)[: min(shape)]
    W = with_spectrum(values, *shape, seed=3) if min(shape) == 4 else isometry(6, 6, 1) + 0.3 * gaussian(6, 6)
    torch.testing.assert_close(orthogonalize(W, method, steps=40), orthogonalize(W, "polar"))


def test_muon_does_not_converge():
    W = gaussian(20, 20)
    assert min(dfi_per_dimension(orthogonalize(W, "muon", steps)) for steps in (30, 31, 32)) > 1e-2


@pytest.mark.parametrize("condition", [1e1, 1e3, 1e5])
def test_ten_polar_express_steps_reach_polar(condition):
    W = with_spectrum(torch.logspace(0, -math.log10(condition), 48, dtype=torch.float64), 64, 48, seed=4)
    X, P = orthogonalize(W, "polar_express"), orthogonalize(W, "polar")
    assert (X - P).norm() / P.norm() < 1e-5
    single = (orthogonalize(W.float(), "polar_express") - orthogonalize(W.float(), "polar")).norm() / P.norm()
    assert single < (5e-5 if condition < 1e4 else 5e-4)


def test_polar_express_polynomials_are_minimax():
    low, high = 7e-6, 1.0
    for a, b, c in METHODS["polar_express"][:-1]:
        s = torch.linspace(max(low, 0.02 * high), high, 200_001, dtype=torch.float64)
        error = a * s + b * s**3 + c * s**5 - 1
        worst = error.abs().max().item()
        # alternation theorem: the extreme error is met at four points with alternating sign (the last of them
        # lies just above `high`, by the slack taken against roundoff)
        extremes = error[error.abs() > 0.97 * worst].sign()
        assert (extremes[1:] != extremes[:-1]).sum() == 3
        low, high = a * low + b * low**3 + c * low**5, (error.max() + 1).item()
    assert worst < 1e-3


@pytest.mark.slow
def test_ten_cubic_steps_leave_a_square_gaussian_far_from_an_isometry():
    W = gaussian(512, 512, dtype=torch.float32)
    assert 0.14 < dfi_per_dimension(orthogonalize(W)) < 0.18
    assert dfi_per_dimension(orthogonalize(gaussian(512, 2048, dtype=torch.float32))) < 0.005
    assert 0.75 < dfi_per_dimension(orthogonalize(W, steps=5)) < 0.85


@given(exponent=st.integers(-30, 30), method=st.sampled_from(list(METHODS)))
@settings(max_examples=25)
def test_the_scale_of_the_matrix_does_not_matter(exponent, method):
    W = gaussian(5, 7, dtype=torch.float32)
    scaled = orthogonalize(W * 10.0**exponent, method)
    torch.testing.assert_close(scaled, orthogonalize(W, method), rtol=0, atol=2e-5)


@pytest.mark.parametrize("method", CONVERGENT)
@pytest.mark.parametrize("tolerance", [1e-2, 1e-8])
def test_tolerance_bounds_the_worst_matrix_of_the_batch(method, tolerance):
    W = torch.stack([with_spectrum(torch.logspace(0, -d, 6, dtype=torch.float64), 6, 6, d) for d in (1, 3)])
    assert dfi_per_dimension(orthogonalize(W.float(), method, tolerance=tolerance)) <= tolerance * 1.001


def test_tolerance_stops_as_soon_as_it_is_met():
    W = with_spectrum(torch.linspace(0.5, 1, 5, dtype=torch.float64), 8, 5, seed=1)
    reached = [dfi_per_dimension(orthogonalize(W, steps=n)) for n in range(1, 12)]
    needed = next(n for n, value in enumerate(reached, start=1) if value <= 1e-3)
    torch.testing.assert_close(orthogonalize(W, tolerance=1e-3), orthogonalize(W, steps=needed))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtype_is_kept_half_types_are_computed_in_float32_and_the_input_is_not_changed(method, dtype):
    W = gaussian(6, 4).to(dtype).requires_grad_()
    before = W.detach().clone()
    X = orthogonalize(W, method)
    assert (X.dtype, X.requires_grad) == (dtype, False)
    assert torch.equal(W, before)
    if dtype in (torch.float16, torch.bfloat16):
        torch.testing.assert_close(X, orthogonalize(W.float(), method).to(dtype))


def test_a_rank_deficient_matrix_has_a_polar_factor():
    X = orthogonalize(torch.ones(5, 3), "polar")
    torch.testing.assert_close(X.mT @ X, torch.eye(3))


@pytest.mark.parametrize(
    ("W", "settings", "message"),
    [
        (torch.eye(3), {"method": "newton_shulz"}, "did you mean 'newton_schulz'"),
        (torch.eye(3), {"steps": 0}, "steps must be at least 1, got 0"),
        (torch.eye(3), {"tolerance": 0.0}, "tolerance must be above 0, got 0.0"),
        (torch.eye(3), {"method": "muon", "tolerance": 0.1}, "tolerance=0.1 cannot be met by method 'muon'"),
        (torch.ones(3), {}, r"\(\.\.\., m, n\), got torch.float32 \(3,\)"),
        (torch.ones(3, 3, dtype=torch.int64), {}, "floating point"),
        (torch.stack([torch.eye(3), torch.zeros(3, 3)]), {}, "matrix 1 of the batch is zero"),
        (
            torch.stack([torch.eye(3), torch.diag(torch.tensor([1.0, 1.0, 0.0]))]),
            {"tolerance": 1e-3},
            "matrix 1 of the batch .* 100 iterations of newton_schulz: .* 0.333; use method='polar'",
        ),
        (torch.full((2, 2, 3, 3), math.nan), {}, "matrix 0 of the batch is not finite"),
        (torch.tensor([[1.0, math.inf]]), {}, "matrix 0 of the batch is not finite"),
    ],
)
def test_wrong_input_is_refused_in_one_line(W, settings, message):
    with refused(message):
        orthogonalize(W, **settings)
