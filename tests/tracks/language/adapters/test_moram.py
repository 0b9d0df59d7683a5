import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call

from supple.tracks.language import MoRAM
from supple.tracks.language.adapters import moram as moram_module

pytestmark = pytest.mark.slow


def adapter(tasks: int = 3, inputs: int = 7, outputs: int = 5, dtype: torch.dtype = torch.float64, **params) -> MoRAM:
    """With values other than 0, as after training."""
    source = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    made = MoRAM(nn.Linear(inputs, outputs).to(dtype), **params)
    for _ in range(tasks):
        made.add_task(source)
        nn.init.normal_(made.B, generator=source)
    return made


@torch.no_grad()
def by_the_equations(made: MoRAM, x: Tensor) -> Tensor:
    """Equations 4 to 8, token by token and atom by atom; x: (tokens, d_in)."""
    keys, values = made.bank("A"), made.bank("B")
    out = made.linear(x)
    for token, y in zip(x, out, strict=True):
        activations = [float(key @ token) for key in keys]
        norm = math.sqrt(sum(a * a for a in activations))
        scores = [a / norm if norm else 0.0 for a in activations]
        kept = sorted(range(len(keys)), key=lambda i: -scores[i])[: made.k]
        exponentials = {i: math.exp(scores[i] / (made.tau or 1.0)) for i in kept}
        for i in kept:
            weight = exponentials[i] / sum(exponentials.values())
            if not made.training and made.delta is not None and scores[i] < made.delta:
                weight = 0.0
            y += weight * activations[i] * values[i]
    return out


@settings(max_examples=25)
@given(
    tasks=st.integers(1, 4),
    r=st.integers(1, 5),
    k=st.none() | st.integers(1, 8),
    tau=st.none() | st.floats(0.05, 2.0),
    delta=st.none() | st.floats(-0.5, 0.6),
    training=st.booleans(),
)
def test_moram_computes_the_equations_of_the_paper(tasks, r, k, tau, delta, training):
    made = adapter(tasks, r=r, k=k, tau=tau, delta=delta).train(training)
    x = torch.randn(6, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    torch.testing.assert_close(made(x), by_the_equations(made, x))
    with torch.no_grad():  # where values may be gathered
        torch.testing.assert_close(made(x), by_the_equations(made, x))


def test_moram_works_with_functional_call():
    made, x = adapter(), torch.randn(6, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    doubled = {"B": 2 * made.B.detach()}
    outputs = functional_call(made, doubled, (x,))
    with torch.no_grad():
        made.B.mul_(2)
    torch.testing.assert_close(outputs, made(x))


@pytest.mark.parametrize("threshold", [0, 10**9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gathered_and_dense_values_are_the_same(monkeypatch, threshold, dtype):
    monkeypatch.setattr(moram_module, "GATHER_FROM", threshold)
    made = adapter(4, r=6, k=3, dtype=torch.float32).eval()
    x = torch.randn(2, 3, 4, 7)
    expected = by_the_equations(made, x.view(-1, 7)).view(2, 3, 4, 5)
    made.linear.to(dtype)
    with torch.no_grad():
        outputs = made(x.to(dtype))
    assert outputs.dtype == dtype
    if dtype == torch.float32:
        torch.testing.assert_close(outputs, expected)
    else:
        assert (outputs.float() - expected).norm() < 0.05 * expected.norm()


@pytest.mark.parametrize("shape", [(7,), (4, 7), (2, 3, 7), (0, 7)])
@pytest.mark.parametrize("tasks", [0, 1, 6])
def test_any_leading_dimensions_will_do(shape, tasks):
    made = adapter(tasks, r=4, k=2).eval()
    x = torch.randn(shape, dtype=torch.float64)
    with torch.no_grad():
        assert made(x).shape == (*shape[:-1], 5)
        torch.testing.assert_close(made(x), by_the_equations(made, x.view(-1, 7)).view(*shape[:-1], 5))


@pytest.mark.parametrize("training", [True, False])
def test_a_zero_input_gives_the_bias_and_finite_gradients(training):
    made = adapter(r=4, k=3).train(training)
    x = torch.zeros(2, 7, dtype=torch.float64, requires_grad=True)
    y = made(x)
    torch.testing.assert_close(y, made.linear.bias.expand(2, 5))
    y.sum().backward()
    assert torch.isfinite(x.grad).all()
    assert torch.isfinite(made.A.grad).all()


def test_a_task_freezes_the_atoms_as_they_are_and_starts_with_zero_values():
    made = adapter(1, r=4)
    key, value = made.A.detach().clone(), made.B.detach().clone()
    made.add_task(torch.Generator().manual_seed(5))
    assert made.sizes == (4, 4)
    torch.testing.assert_close(made.frozen_A, key)
    torch.testing.assert_close(made.frozen_B, value)
    assert not made.B.any()
    assert made.A.abs().max() <= 1 / math.sqrt(7)


def test_the_switches_of_table_4_each_change_the_mixture():
    """Each against the full method, on the same atoms: without k more atoms act, without τ they share more evenly,
    without δ none is dropped in evaluation."""
    x = torch.randn(50, 7, dtype=torch.float64)

    def weights(**params) -> Tensor:
        made = adapter(4, r=4, **params).eval()
        return made.weights(x, x @ made.bank("A").T)

    full = weights(k=4)
    assert (full > 0).sum(-1).max() <= 4
    assert (weights(k=None, delta=None) > 0).all()
    assert ((weights(k=4, delta=None) > 0).sum(-1) == 4).all()
    torch.testing.assert_close(weights(k=4, delta=None).sum(-1), torch.ones(50, dtype=torch.float64))
    assert (full.sum(-1) < 0.999).any()
    assert weights(k=4, tau=None, delta=None).max() < weights(k=4, delta=None).max()


def test_the_threshold_acts_in_evaluation_alone():
    made = adapter(3, r=4, delta=0.9)
    x = torch.randn(20, 7, dtype=torch.float64)
    assert not torch.allclose(made(x), made.linear(x))
    made.eval()
    assert (made(x) == made.linear(x)).all(-1).any()


def test_its_state_brings_its_number_of_atoms():
    made, other = adapter(3, r=4), adapter(1, r=4)
    other.load_state_dict(made.state_dict())
    x = torch.randn(4, 7, dtype=torch.float64)
    assert other.sizes == (4, 4, 4)
    assert torch.equal(other(x), made(x))
    assert [p.shape for p in other.task_parameters()] == [(4, 7), (4, 5)]
    kept = other.A
    other.load_state_dict(made.state_dict())
    assert other.A is kept


def test_atoms_of_a_bfloat16_layer_are_kept_in_float32():
    made = adapter(2, dtype=torch.bfloat16)
    assert made.A.dtype == made.frozen_B.dtype == torch.float32
    made(torch.randn(3, 7, dtype=torch.bfloat16)).sum().backward()
    assert made.A.grad.dtype == torch.float32


@pytest.mark.parametrize("k", [2, 8])
def test_inputs_of_zeros_have_second_derivatives(k):
    made = adapter(tasks=1, r=4, k=k)
    x = torch.randn(3, 7, dtype=torch.float64)
    x[1] = 0.0  # as the embedding of padding often is
    first = torch.autograd.grad(made(x).square().sum(), [made.A, made.B], create_graph=True)
    second = torch.autograd.grad(sum(part.sum() for part in first), [made.A, made.B])
    assert all(part.isfinite().all() for part in (*first, *second))
    assert torch.equal(made(x)[1], made.linear(x)[1])
