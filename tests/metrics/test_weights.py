"""SFE, DfI and norms against plain loops and singular values."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from supple.metrics import dfi, dfi_unscaled, gradient_norm, isometry_scale, sfe, weight_norm

sizes = st.integers(1, 7)
seeds = st.integers(0, 10_000)
few = settings(max_examples=25)


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def semi_isometry(m: int, n: int, seed: int = 0) -> Tensor:
    u, _, vh = torch.linalg.svd(gaussian(m, n, seed=seed), full_matrices=False)
    return u @ vh


# --- SFE ---------------------------------------------------------------------------------------------------


def test_sfe_is_the_sum_of_squared_differences() -> None:
    a, b = gaussian(3, 4, seed=1), gaussian(3, 4, seed=2)
    loop = sum((a[i, j] - b[i, j]).item() ** 2 for i in range(3) for j in range(4))
    assert sfe(a, b) == pytest.approx(loop, rel=1e-12)
    assert sfe(a, b, normalized=True) == pytest.approx(loop / a.square().sum().item(), rel=1e-12)


def test_sfe_of_several_tensors_is_their_sum_in_every_container() -> None:
    a, b = [gaussian(3, 4, seed=1), gaussian(5, seed=2)], [gaussian(3, 4, seed=3), gaussian(5, seed=4)]
    total = sfe(a[0], b[0]) + sfe(a[1], b[1])
    assert sfe(a, b) == pytest.approx(total, rel=1e-12)
    assert sfe({"w": a[0], "b": a[1]}, {"b": b[1], "w": b[0]}) == pytest.approx(total, rel=1e-12)


def test_sfe_compares_a_module_with_a_module_or_with_its_earlier_parameters() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    module[1].running_mean.add_(5.0)  # a buffer is no parameter
    assert sfe(module, before) == 0.0
    with torch.no_grad():
        module[0].weight.add_(2.0)
    assert sfe(module, before) == pytest.approx(4.0 * 12, rel=1e-6)
    assert sfe(before, torch.compile(module)) == pytest.approx(4.0 * 12, rel=1e-6)  # of other names
    assert sfe(module, module) == 0.0


@pytest.mark.slow
def test_sfe_keeps_small_changes_that_float32_sums_lose() -> None:
    a = torch.zeros(2_000_000, dtype=torch.bfloat16)
    assert sfe(a, a + 0.5) == 500_000.0


@pytest.mark.parametrize(
    ("name", "size", "message"), [("w", 1, "shapes of 'w' differ"), ("v", 2, "'v' is in only one")]
)
def test_sfe_refuses_what_does_not_match(name: str, size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sfe({"w": torch.zeros(2)}, {name: torch.zeros(size)})


def test_dfi_refuses_an_unknown_side() -> None:
    with pytest.raises(ValueError, match="side must be"):
        dfi(torch.eye(2), side="left")  # type: ignore[arg-type]


def test_sfe_normalized_by_zero_weights_is_nan() -> None:
    assert math.isnan(sfe(torch.zeros(3), torch.ones(3), normalized=True))


# --- DfI ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@few
@given(sizes, sizes, seeds)
def test_dfi_is_the_squared_deviation_of_squared_singular_values(m: int, n: int, seed: int) -> None:
    W = gaussian(m, n, seed=seed)
    deviations = (torch.linalg.svdvals(W).square() - 1).square()
    assert dfi(W) == pytest.approx(deviations.sum().item(), rel=1e-9)
    assert dfi(W, per_dimension=True) == pytest.approx(deviations.mean().item(), rel=1e-9)
    assert dfi(W.T) == pytest.approx(dfi(W), rel=1e-9)


@pytest.mark.slow
@few
@given(sizes, sizes, seeds)
def test_dfi_of_the_larger_side_is_larger_by_the_difference_of_sizes(m: int, n: int, seed: int) -> None:
    W = gaussian(m, n, seed=seed)
    assert dfi(W, side="columns") == pytest.approx(dfi(W) + max(n - m, 0), rel=1e-9, abs=1e-9)
    assert dfi(W, side="rows") == pytest.approx(dfi(W) + max(m - n, 0), rel=1e-9, abs=1e-9)
    literal = (W.T @ W - torch.eye(n, dtype=W.dtype)).square().sum().item()  # eq. 2 as printed
    assert dfi(W, side="columns") == pytest.approx(literal, rel=1e-9)
    assert dfi(W, side="columns", per_dimension=True) == pytest.approx(literal / n, rel=1e-9)


@pytest.mark.slow
@few
@given(sizes, sizes, seeds, st.floats(1.01, 3.0))
def test_dfi_is_zero_for_semi_isometries_only(m: int, n: int, seed: int, stretch: float) -> None:
    W = semi_isometry(m, n, seed)
    assert dfi(W) < 1e-24
    (W if m <= n else W.T)[0] *= stretch  # one singular value is now `stretch`
    assert dfi(W) == pytest.approx((stretch**2 - 1) ** 2, rel=1e-9)


def test_dfi_of_a_convolution_sums_its_taps() -> None:
    W = gaussian(5, 3, 2, 4, seed=3)
    taps = [dfi(W[:, :, i, j]) for i in range(2) for j in range(4)]
    per_dimension = [dfi(W[:, :, i, j], per_dimension=True) for i in range(2) for j in range(4)]
    assert dfi(W) == pytest.approx(sum(taps), rel=1e-12)
    assert dfi(W, per_dimension=True) == pytest.approx(sum(per_dimension) / 8, rel=1e-12)
    assert dfi(W, side="columns") == pytest.approx(sum(taps), rel=1e-12)
    assert dfi(W, side="rows") == pytest.approx(sum(taps) + 8 * (5 - 3), rel=1e-12)


@pytest.mark.parametrize("shape", [(8, 2), (2, 8), (5, 5), (6, 3, 3, 3), (3, 6, 5), (4, 2, 2, 3, 2)])
def test_dfi_unscaled_is_zero_after_an_exact_fire(shape: tuple[int, ...]) -> None:
    out, into, *kernel = shape
    W = torch.empty(shape, dtype=torch.float64)
    for index, tap in enumerate(W.flatten(2).unbind(-1) if kernel else [W]):
        tap.copy_(semi_isometry(out, into, seed=index))
    W *= math.sqrt(out / into) / math.prod(kernel)  # Appendix C
    assert isometry_scale(W) == pytest.approx(math.sqrt(out / into) / math.prod(kernel), rel=1e-12)
    assert dfi_unscaled(W) < 1e-24
    assert dfi_unscaled(W * 1.1) == pytest.approx((1.1**2 - 1) ** 2, rel=1e-9)
    assert (dfi(W) < 1e-24) == (isometry_scale(W) == 1.0)


# --- norms -------------------------------------------------------------------------------------------------


def test_norms_are_those_of_all_entries_together() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    flat = torch.cat([p.detach().flatten().double() for p in module.parameters()])
    assert weight_norm(module) == pytest.approx(flat.norm().item(), rel=1e-12)

    assert gradient_norm(module) == 0.0
    module[0](torch.randn(5, 4)).square().sum().backward()  # the last layer has no gradient
    flat = torch.cat([p.grad.flatten().double() for p in module[0].parameters()])
    assert gradient_norm(module) == pytest.approx(flat.norm().item(), rel=1e-12)
