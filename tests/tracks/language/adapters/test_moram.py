import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from supple.tracks.language import MoRAM
from tests.tracks.language.adapters.models import adapted, inputs

pytestmark = pytest.mark.slow


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


@settings(max_examples=40)
@given(
    shape=st.sampled_from([(), (6,), (2, 3), (0,)]),
    tasks=st.integers(0, 4),
    r=st.integers(1, 5),
    k=st.none() | st.integers(1, 8),
    tau=st.none() | st.floats(0.05, 2.0),
    delta=st.none() | st.floats(-0.5, 0.9),
    training=st.booleans(),
)
def test_moram_computes_the_equations_of_the_paper(shape, tasks, r, k, tau, delta, training):
    made = adapted(tasks=tasks, r=r, k=k, tau=tau, delta=delta)[0].train(training)
    x = inputs(*shape)
    x.view(-1, 6)[1:2] = 0.0  # as the embedding of padding often is
    expected = by_the_equations(made, x.view(-1, 6)).view(*shape, 8)
    torch.testing.assert_close(made(x), expected)
    with torch.no_grad():  # where values may be gathered
        torch.testing.assert_close(made(x), expected)


def test_a_bfloat16_layer_has_atoms_in_float32_and_outputs_in_bfloat16():
    made, x = adapted(dtype=torch.bfloat16, k=3)[0].train(), inputs(5)
    outputs = [made(x.bfloat16())]
    outputs[0].sum().backward()
    assert made.A.dtype == made.frozen_B.dtype == made.A.grad.dtype == torch.float32
    with torch.no_grad():
        outputs.append(made(x.bfloat16()))
    expected = by_the_equations(made.float(), x.float())
    for found in outputs:
        assert found.dtype == torch.bfloat16
        assert (found.float() - expected).norm() < 0.05 * expected.norm()


def test_a_task_freezes_the_atoms_as_they_are_and_starts_with_zero_values():
    made = adapted(tasks=1)[0]
    key, value = made.A.detach().clone(), made.B.detach().clone()
    made.add_task()
    assert made.sizes == (4, 4)
    assert torch.equal(made.frozen_A, key)
    assert torch.equal(made.frozen_B, value)
    assert not made.B.any()
    assert made.A.abs().max() <= 1 / math.sqrt(6)


def test_a_state_that_fits_leaves_its_parameters_the_same_objects():
    made = adapted()[0]
    kept = made.A
    made.load_state_dict(made.state_dict())
    assert made.A is kept


@pytest.mark.parametrize("k", [2, 8])
def test_inputs_of_zeros_have_first_and_second_derivatives(k):
    made, x = adapted(tasks=1, k=k)[0], inputs(3)
    x[1] = 0.0
    parts = [x.requires_grad_(), made.A, made.B]
    first = torch.autograd.grad(made(x).square().sum(), parts, create_graph=True)
    second = torch.autograd.grad(sum(part.sum() for part in first), parts)
    assert all(part.isfinite().all() for part in (*first, *second))
