"""Largest Hessian eigenvalues against the full Hessian."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call, hessian

from supple.interventions import StackedLinear
from supple.metrics import hessian_eigenvalues

few = settings(max_examples=15)


def draw(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def quadratic(eigenvalues: list[float], dtype: torch.dtype = torch.float64) -> tuple[Callable[[], Tensor], Tensor]:
    """x·Hx/2 for an H of this spectrum."""
    n = len(eigenvalues)
    basis = torch.linalg.qr(torch.randn(n, n, dtype=torch.float64, generator=draw(n))).Q
    matrix = (basis @ torch.diag(torch.tensor(eigenvalues, dtype=torch.float64)) @ basis.T).to(dtype)
    x = torch.randn(n, dtype=dtype, generator=draw(1)).requires_grad_()
    return lambda: x @ matrix @ x / 2, x


def full_spectrum(module: nn.Module, loss_of: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """All eigenvalues of the Hessian, descending, by forming it."""
    named = {name: p.detach() for name, p in module.named_parameters()}
    sizes = [p.numel() for p in named.values()]

    def loss(flat: Tensor) -> Tensor:
        parts = flat.split(sizes)
        values = {n: part.view_as(p) for (n, p), part in zip(named.items(), parts, strict=True)}
        return loss_of(functional_call(module, values, (x,)))

    flat = torch.cat([p.flatten() for p in named.values()])
    return torch.linalg.eigvalsh(hessian(loss)(flat).double()).flip(0)


def mlp(unit: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(18, 6), unit, nn.Linear(6, 5), unit, nn.Linear(5, 3))


NETS = {
    "tanh": lambda: mlp(nn.Tanh()),
    "relu": lambda: mlp(nn.ReLU()),
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 3, 3)), nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3), nn.Tanh(), nn.Flatten(), nn.Linear(12, 3)
    ).eval(),
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("kind", NETS)
def test_top_eigenvalues_are_those_of_the_full_hessian(dtype: torch.dtype, kind: str) -> None:
    torch.manual_seed(0)
    net, x, y = NETS[kind]().to(dtype), torch.randn(30, 18, dtype=dtype), torch.randint(3, (30,))
    expected = full_spectrum(net, lambda out: nn.functional.cross_entropy(out, y), x)
    for k in (1, 4):
        eigenvalues = hessian_eigenvalues(lambda: nn.functional.cross_entropy(net(x), y), net.parameters(), k=k)
        torch.testing.assert_close(eigenvalues, expected[:k], rtol=1e-3, atol=0)


@pytest.mark.slow
@few
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12), st.integers(1, 4))
@example(eigenvalues=[0.0, 2.47049731780053e-07, -1.0], k=1)
def test_any_spectrum_is_found_from_the_top(eigenvalues: list[float], k: int) -> None:
    k = min(k, len(eigenvalues))
    expected = torch.tensor(sorted(eigenvalues, reverse=True)[:k], dtype=torch.float64)
    loss, x = quadratic(eigenvalues)
    # next to a large eigenvalue, a small one is found to a thousandth of a thousandth of it (`tolerance`)
    atol = max(1e-8, 1e-6 * max(map(abs, eigenvalues)))
    torch.testing.assert_close(hessian_eigenvalues(loss, [x], k), expected, rtol=1e-6, atol=atol)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_largest_is_algebraic_and_repeated_eigenvalues_are_all_found(dtype: torch.dtype) -> None:
    loss, x = quadratic([-9.0, -8.0, *torch.linspace(-1, 1, 80).tolist(), 2.0, 2.0, 2.0, 1.9], dtype)
    eigenvalues = hessian_eigenvalues(loss, [x], k=5)
    torch.testing.assert_close(eigenvalues, torch.tensor([2, 2, 2, 1.9, 1], dtype=torch.float64), rtol=1e-3, atol=0)
    loss, x = quadratic([-3.0, -3.0, -1.0, -7.0], dtype)  # all are negative
    torch.testing.assert_close(
        hessian_eigenvalues(loss, [x], 2), torch.tensor([-1.0, -3.0]).double(), rtol=1e-3, atol=0
    )


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("block", "max_basis"), [(1, 8), (1, 16), (2, 9), (5, 10), (5, 18), (None, 20)])
def test_a_bounded_basis_finds_the_same_eigenvalues(block: int | None, max_basis: int, dtype: torch.dtype) -> None:
    spectrum = [-9.0, -8.0, *torch.linspace(-1, 1, 80).tolist(), 3.0, 2.5, 2.0, 1.8, 1.5]
    loss, x = quadratic(spectrum, dtype)
    eigenvalues = hessian_eigenvalues(loss, [x], 5, max_iterations=400, block=block, max_basis=max_basis)
    torch.testing.assert_close(eigenvalues, torch.tensor([3, 2.5, 2, 1.8, 1.5], dtype=torch.float64), rtol=1e-3, atol=0)


@pytest.mark.slow
@few
@given(st.lists(st.integers(-50, 50), min_size=1, max_size=12), st.integers(1, 4), st.data())
def test_any_spectrum_is_found_in_a_bounded_basis(tenths: list[int], k: int, data: st.DataObject) -> None:
    """Eigenvalues are equal or 0.1 apart: across narrower gaps so small a basis takes more than 1000 iterations."""
    eigenvalues = [i / 10 for i in tenths]
    k = min(k, len(eigenvalues))
    held = data.draw(st.integers(2 * k, 2 * k + 4))
    expected = torch.tensor(sorted(eigenvalues, reverse=True)[:k], dtype=torch.float64)
    loss, x = quadratic(eigenvalues)
    eigenvalues = hessian_eigenvalues(loss, [x], k, max_basis=held, tolerance=1e-9, max_iterations=1000)
    torch.testing.assert_close(eigenvalues, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_a_restart_keeps_all_directions_of_the_block_even_near_the_end_of_the_space() -> None:
    loss, x = quadratic([0.0, 1.0, -4.0, 0.0, -1.0, 0.0, 1 / 256, -1.0])
    eigenvalues = hessian_eigenvalues(loss, [x], 3, max_basis=6, tolerance=1e-9, max_iterations=1000)
    torch.testing.assert_close(eigenvalues, torch.tensor([1, 1 / 256, 0], dtype=torch.float64), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_a_bounded_basis_keeps_to_its_budget(monkeypatch) -> None:
    products, grad = [], torch.autograd.grad
    monkeypatch.setattr(torch.autograd, "grad", lambda *of, **more: (products.append(1), grad(*of, **more))[1])
    loss, x = quadratic([float(i) for i in range(200)])
    eigenvalues = hessian_eigenvalues(loss, [x], 3, block=1, max_basis=6, max_iterations=20)
    assert 20 <= len(products) <= 20 + 1
    assert eigenvalues[0] <= 199 + 1e-6


@pytest.mark.slow
def test_members_of_a_stack_have_the_eigenvalues_of_networks_of_their_own() -> None:
    torch.manual_seed(2)
    stack = nn.Sequential(StackedLinear(3, 4, 7), nn.Tanh(), StackedLinear(3, 7, 2)).double()
    with torch.no_grad():
        stack[0].weight[1].mul_(5.0)
        stack[2].weight[2].zero_()
    x = torch.randn(20, 4, dtype=torch.float64)

    def loss(out: Tensor) -> Tensor:
        return (out - 1).square().mean((-2, -1)).sum()

    together = hessian_eigenvalues(lambda: loss(stack(x)), stack.parameters(), k=2, members=3)
    assert together.shape == (3, 2)
    bounded = hessian_eigenvalues(
        lambda: loss(stack(x)), stack.parameters(), 2, members=3, block=1, max_basis=9, max_iterations=300
    )
    torch.testing.assert_close(bounded, together, rtol=1e-3, atol=1e-6)
    for i in range(3):
        alone = nn.Sequential(nn.Linear(4, 7), nn.Tanh(), nn.Linear(7, 2)).double()
        alone.load_state_dict({name: value[i] for name, value in stack.state_dict().items()})
        torch.testing.assert_close(together[i], full_spectrum(alone, loss, x)[:2], rtol=1e-3, atol=0)
        apart = hessian_eigenvalues(lambda net=alone: loss(net(x)), alone.parameters(), k=2)
        torch.testing.assert_close(together[i], apart, rtol=1e-9, atol=1e-12)


def test_flat_losses_have_no_curvature() -> None:
    x, y = torch.ones(4, requires_grad=True), torch.ones(3, requires_grad=True)
    assert hessian_eigenvalues(lambda: 3 * x.sum(), [x], 2).tolist() == [0, 0]
    assert hessian_eigenvalues(lambda: torch.zeros(()), [x]).tolist() == [0]
    eigenvalues = hessian_eigenvalues(
        lambda: x.square().sum() + y.sum(), [y, x], 5
    )  # y has a gradient and no curvature
    torch.testing.assert_close(eigenvalues, torch.tensor([2.0, 2, 2, 2, 0]).double(), rtol=1e-5, atol=1e-6)


def test_attention_has_a_second_derivative() -> None:
    q = torch.ones(1, 1, 4, 4, requires_grad=True)
    value = hessian_eigenvalues(lambda: nn.functional.scaled_dot_product_attention(q, q, q).square().sum(), [q])
    assert value.isfinite().all()


def test_gradients_and_global_generators_are_unchanged_and_results_repeat() -> None:
    loss, x = quadratic([3.0, 1.0, -1.0])
    x.grad = torch.full_like(x, 7.0)
    state = torch.get_rng_state()
    first = hessian_eigenvalues(loss, [x], 2)
    assert torch.equal(hessian_eigenvalues(loss, [x], 2), first)
    assert torch.equal(torch.get_rng_state(), state)
    assert x.grad.tolist() == [7.0] * 3


def test_wrong_input_is_refused() -> None:
    loss, x = quadratic([1.0, 2.0])
    with pytest.raises(ValueError, match="k must be between 1 and the 2 parameters"):
        hessian_eigenvalues(loss, [x], 3)
    with pytest.raises(ValueError, match="finite"):
        hessian_eigenvalues(lambda: loss() * float("nan"), [x])
    with pytest.raises(ValueError, match="its Hessian is not"):  # of a square root at 0
        hessian_eigenvalues(lambda: x.sub(x.detach()).abs().pow(1.5).sum(), [x])
