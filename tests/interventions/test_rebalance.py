"""Re-balancing of two consecutive linear maps: product, balance, least movement, and what gradient flow conserves."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from supple.interventions import balance_layers_, learner_for, rebalance_, snapshot
from supple.interventions.balance import balance_pairs_
from tests.interventions.common import changed, exact, refused

few = settings(max_examples=25)
sizes = st.integers(1, 6)
lambdas = st.sampled_from([-10.0, -1.0, -1e-4, 0.0, 1e-4, 1.0, 10.0])


def draw(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def residual(w1: Tensor, w2: Tensor, lam: float, bias: Tensor | None = None) -> float:
    off = w2.mT @ w2 - w1 @ w1.mT - lam * torch.eye(w1.shape[-2], dtype=w1.dtype)
    if bias is not None:
        off = off - bias[..., :, None] * bias[..., None, :]
    return float(torch.linalg.matrix_norm(off.detach()).max())


# -- directly linear maps --------------------------------------------------------------------------------------------


@pytest.mark.slow
@few
@given(sizes, sizes, sizes, st.integers(0, 6), lambdas, st.sampled_from([1e-3, 1.0, 10.0]), st.integers(0, 99))
def test_the_product_stays_and_the_balance_is_reached_wherever_it_can_be(
    i: int, h: int, o: int, rank: int, lam: float, scale: float, seed: int
) -> None:
    w1 = draw(h, i, seed=seed, scale=scale)
    w2 = draw(o, rank, seed=seed + 1) @ draw(rank, h, seed=seed + 2) if rank < h else draw(o, h, seed=seed + 1)
    product, reachable = w2 @ w1, not ((lam > 0 and h > o) or (lam < 0 and h > i))
    if not reachable:
        before = w1.clone(), w2.clone()
        with refused(f"at least as many {'outputs' if lam > 0 else 'inputs'} as hidden units"):
            rebalance_(w1, w2, lam)
        exact((w1, w2), before)
        return
    assert rebalance_(w1, w2, lam).tolist() == [True] * h
    torch.testing.assert_close(w2 @ w1, product, rtol=1e-10, atol=1e-10)
    assert residual(w1, w2, lam) < 1e-9
    again = w1.clone(), w2.clone()
    rebalance_(*again, lam)
    torch.testing.assert_close(again, (w1, w2), rtol=0, atol=1e-6)  # √ of rounding, where a singular value is 0


@pytest.mark.parametrize("lam", [-2.0, 0.0, 3.0])
def test_singular_values_are_those_of_the_theorem(lam: float) -> None:
    w1, w2 = draw(3, 5), draw(4, 3, seed=1)
    s = torch.linalg.svdvals(w2 @ w1)[:3]
    rebalance_(w1, w2, lam)
    root = (lam**2 + 4 * s**2).sqrt()
    torch.testing.assert_close(torch.linalg.svdvals(w2), ((root + lam) / 2).sqrt())
    torch.testing.assert_close(torch.linalg.svdvals(w1), ((root - lam) / 2).sqrt())


@pytest.mark.slow
@pytest.mark.parametrize(("i", "h", "o", "lam"), [(5, 3, 4, 2.0), (5, 3, 4, -2.0), (2, 4, 6, 2.0), (6, 4, 2, -2.0)])
def test_no_other_balanced_factors_of_the_product_are_nearer(i: int, h: int, o: int, lam: float) -> None:
    """All balanced factors are QW1, W2Qᵀ of one another; below rank h, of the larger map's directions, too."""
    old1, old2 = draw(h, i), draw(o, h, seed=1)
    new1, new2 = old1.clone(), old2.clone()
    rebalance_(new1, new2, lam)

    def distance(w1: Tensor, w2: Tensor) -> float:
        return float((w1 - old1).square().sum() + (w2 - old2).square().sum())

    least = distance(new1, new2)
    for seed, size in itertools.product(range(10), (0.03, 1.0)):
        a = draw(h, h, seed=seed, scale=size)
        q = torch.linalg.matrix_exp(a - a.T)
        assert distance(q @ new1, new2 @ q.T) > least
        b = draw(o, o, seed=seed, scale=size)
        if i < h:  # turn outputs that the product does not reach
            u = torch.linalg.svd(new2 @ new1).U[:, i:]
            turn = torch.eye(o, dtype=b.dtype) - u @ u.T + u @ torch.linalg.matrix_exp((b - b.T)[i:, i:]) @ u.T
            torch.testing.assert_close(turn @ new2 @ new1, old2 @ old1)
            assert distance(new1, turn @ new2) > least


@pytest.mark.parametrize("lam", [-4.0, 0.0, 2.0])
def test_a_fresh_lora_keeps_its_function_and_its_directions_at_every_balance(lam: float) -> None:
    """λ < 0 and a zero product: A becomes √|λ| times its own polar factor, the nearest there is."""
    a, b = draw(3, 8), torch.zeros(5, 3, dtype=torch.float64)
    u, _, vt = torch.linalg.svd(a, full_matrices=False)
    rebalance_(a, b, lam)
    assert residual(a, b, lam) < 1e-9
    torch.testing.assert_close(a, 2 * u @ vt if lam < 0 else torch.zeros_like(a))
    assert bool(b.any()) == (lam > 0)


def test_layers_and_views_are_written_in_place_in_their_own_type() -> None:
    torch.manual_seed(0)
    first, second = nn.Linear(7, 4), nn.Linear(4, 5)
    x = torch.randn(50, 7)
    before, place = second(first(x)), first.weight.data_ptr()
    rebalance_(first, second, 2.0)
    torch.testing.assert_close(second(first(x)), before, rtol=0, atol=1e-6)
    assert residual(first.weight, second.weight, 2.0, first.bias) < 1e-5
    assert first.weight.data_ptr() == place
    values = nn.Parameter(torch.randn(4, 6))  # rows are values: LoRA's B is its transpose
    rebalance_(first.weight, values.T, -1.0)
    assert residual(first.weight, values.T, -1.0) < 1e-5


def test_a_chain_whose_product_is_zero_ends_at_zero() -> None:
    """Balanced maps of a zero product at λ = 0 are zero themselves: no deviation relative to nothing."""
    layers = [nn.Linear(3, 3, bias=False).double() for _ in range(3)]
    with torch.no_grad():
        layers[1].weight.zero_()
    learner = learner_for(nn.Sequential(*layers), units=())
    balance_pairs_(learner.linear_pairs(), 0.0)
    assert not any(layer.weight.any() for layer in layers)


# -- an activation in between ----------------------------------------------------------------------------------------


@pytest.mark.slow
@few
@given(lambdas, st.sampled_from([nn.ReLU(), nn.LeakyReLU(0.3), nn.PReLU()]), st.booleans(), st.integers(0, 99))
def test_with_a_homogeneous_activation_the_function_stays_and_the_diagonal_is_reached(
    lam: float, activation: nn.Module, biased: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    first, second = nn.Linear(5, 9, bias=biased).double(), nn.Linear(9, 3).double()
    x = draw(40, 5, seed=seed)
    before = second(activation.double()(first(x)))
    mask = rebalance_(first, second, lam, between="homogeneous")
    assert mask.all()
    torch.testing.assert_close(second(activation(first(x))), before)
    diagonal = second.weight.square().sum(0) - first.weight.square().sum(1)
    if biased:
        diagonal = diagonal - first.bias.square()
    assert (diagonal - lam).abs().max() < 1e-9


def test_units_that_no_factor_can_balance_are_unchanged() -> None:
    w1, w2 = draw(4, 3), draw(2, 4, seed=1)
    w1[1] = 0  # nothing comes in: λ > 0 alone is in reach
    w2[:, 2] = 0  # nothing goes out: λ < 0 alone
    w1[3], w2[:, 3] = 0, 0
    for lam, reached in ((1.0, [True, True, False, False]), (-1.0, [True, False, True, False])):
        first, second = w1.clone(), w2.clone()
        mask = rebalance_(first, second, lam, between="homogeneous")
        assert mask.tolist() == reached
        assert torch.equal(first[~mask], w1[~mask])
        assert torch.equal(second[:, ~mask], w2[:, ~mask])
        diagonal = second.square().sum(0) - first.square().sum(1)
        assert (diagonal - lam)[mask].abs().max() < 1e-12


@pytest.mark.parametrize("between", ["linear", "homogeneous"])
@pytest.mark.parametrize("lam", [1e100, -1e100, 1e200])
def test_a_balance_beyond_the_range_of_the_dtype_is_refused_with_nothing_written(between: str, lam: float) -> None:
    layers = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 5))
    before = snapshot(layers)
    with refused(r"lam=-?1e\+\d+ the weights of the pair are too large for float32"):
        rebalance_(*layers, lam, between=between)
    assert not changed(layers, before)


# -- what is conserved -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("activation", [nn.Identity(), nn.ReLU()])
def test_gradient_flow_conserves_the_balance_and_the_bias_is_part_of_it(activation: nn.Module) -> None:
    torch.manual_seed(0)
    first, second = nn.Linear(4, 3).double(), nn.Linear(3, 5).double()
    between = "linear" if isinstance(activation, nn.Identity) else "homogeneous"
    rebalance_(first, second, 1.0, between=between)
    x, y = draw(30, 4), draw(30, 5, seed=1)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=2e-4)
    before = snapshot(first)
    for _ in range(250):
        optimizer.zero_grad()
        (second(activation(first(x))) - y).square().sum(1).mean().backward()
        optimizer.step()
    moved = {name: (value.square() - before[name].square()) for name, value in snapshot(first).items()}
    with_bias = second.weight.square().sum(0) - first.weight.square().sum(1) - first.bias.square()
    assert (with_bias - 1.0).abs().max() < 1e-4 < 1e-3 < moved["bias"].abs().max()
    assert moved["weight"].sum(1).abs().max() > 1e-3
    if between == "linear":
        assert residual(first.weight, second.weight, 1.0, first.bias) < 1e-4


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "options", "message"),
    [
        (draw(3, 4), draw(5, 2), {}, r"do not fit: \(3, 4\) and \(5, 2\)"),
        (draw(3, 4), draw(5, 3), {"lam": float("nan")}, "lam must lie in"),
        (draw(3, 4) / 0, draw(5, 3), {}, "not finite"),
        (draw(3, 4), draw(5, 3), {"between": "tanh"}, "between must be 'linear' or 'homogeneous', got 'tanh'"),
        (nn.Conv2d(3, 3, 3, bias=False), nn.Conv2d(3, 3, 3), {}, "must be Linear or StackedLinear, got Conv2d"),
        (tied := nn.Linear(3, 3), tied, {}, "tied weights cannot be balanced"),
    ],
)
def test_maps_that_cannot_be_balanced_are_refused_in_one_line(first, second, options, message) -> None:
    with refused(message):
        rebalance_(first, second, **{"lam": 0.0, **options})


def test_units_with_several_features_cannot_be_balanced_as_an_initialisation() -> None:
    with refused("only units with one feature each"):
        balance_layers_([[nn.Linear(3, 4)], [nn.Linear(8, 2)]], 1.0)
