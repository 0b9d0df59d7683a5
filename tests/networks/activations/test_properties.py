"""Computed properties against Tables A1 and G1 of Lillo & Cheney (2025), closed forms, and gains against sampling."""

import math

import pytest
import torch
from torch import nn

from supple.networks.activations import activation, activations, derivative, initial_gain
from supple.networks.activations import properties as compute

pytestmark = pytest.mark.slow

COLUMNS = ("HDZ", "NZG", "Sat±", "Sat−", "C1", "NonM", "SelfN", "L/R", "f''")
# Tables A1 and G1, "x" for a mark; Table G1 prints "RReLU" where it means R-SeLU, of which its section treats.
PAPER = {
    "relu": "x--x-----",
    "leaky_relu": "-x-------",
    "prelu": "-x-----x-",
    "rrelu": "-x-----x-",
    "sigmoid": "-xxxx---x",
    "tanh": "-xxxx---x",
    "swish": "-x--xx--x",
    "gelu": "-x--xx--x",
    "elu": "-x-xx---x",
    "celu": "-x-xx---x",
    "selu": "-x-x--x-x",
    "crelu": "xx-------",
    "rational": "-x--xx--x",
    "swiglu": "-x--xx--x",
    "deep_fourier": "-x--xx--x",
    "smooth_leaky": "-x--xx--x",
    "rand_smooth_leaky": "-x--xx-xx",
    "rselu": "-x-x--xxx",
    "bo_prelu": "-x-----x-",
}
# Where the computation says otherwise, and why; docs/reference/activations.md has the same list.
EXCEPTIONS = {
    ("swish", "Sat−"): "φ′ → 0 to the left, as elu's, which has the mark",
    ("gelu", "Sat−"): "φ′ → 0 to the left, as elu's, which has the mark",
    ("swiglu", "Sat−"): "its gate is swish, seen at the value 1",
    ("smooth_leaky", "NonM"): "non-monotonic for α < 0.0908 only (the paper: 'potentially'), and the default is 0.1",
    ("rand_smooth_leaky", "NonM"): "non-monotonic for slopes below 0.0908 only, and the default's are above 0.3",
    ("rational", "C1"): "version A takes |b₁x|: a kink at 0 wherever P(0)·b₁ ≠ 0",
    ("rational", "L/R"): "its coefficients are learned; the paper counts slopes alone",
}


def marks(p):
    saturated_left = p.saturates in ("negative", "two-sided")
    values = (p.dead_zone, p.passes_negative, p.saturates == "two-sided", saturated_left, p.smooth)
    return dict(zip(COLUMNS, (*values, not p.monotone, p.self_normalizing, p.adaptive, p.curved), strict=True))


@pytest.fixture(scope="module")
def properties():
    return {name: compute(activation(name)) for name in activations.names()}


def test_every_mark_of_the_papers_tables_is_computed_or_an_exception(properties):
    assert set(PAPER) == set(activations.names())
    differ = {
        (name, column)
        for name, row in PAPER.items()
        for mark, (column, computed) in zip(row, marks(properties[name]).items(), strict=True)
        if (mark == "x") != computed
    }
    assert differ == set(EXCEPTIONS)


def test_the_exceptions_have_the_reasons_given():
    assert not compute(activation("smooth_leaky", alpha=0.09)).monotone
    assert not compute(activation("rand_smooth_leaky", lower=0.01, upper=0.02)).monotone
    assert compute(activation("rational", version="B")).smooth
    assert compute(activation("rational", start="tanh")).smooth  # odd: P(0) = 0
    assert not compute(activation("elu", alpha=2.0)).smooth  # the paper's own footnote †
    assert not compute(activation("selu", alpha=3.7)).self_normalizing  # ♣


def test_numbers_equal_their_closed_forms(properties):
    assert properties["tanh"].dead_band == pytest.approx(1 - math.acosh(1e3**0.5) / 100, abs=1e-5)
    assert properties["relu"].dead_band == pytest.approx(0.5)
    assert properties["elu"].dead_band == pytest.approx((100 - math.log(1e3)) / 200, abs=1e-5)
    normal = torch.distributions.Normal(0, 1)
    tail = math.exp(0.5) * float(normal.cdf(torch.tensor(-1.0, dtype=torch.float64)))
    assert properties["elu"].negative_slope == pytest.approx(2 * tail, abs=1e-6)
    assert properties["leaky_relu"].negative_slope == pytest.approx(0.01)
    assert properties["bo_prelu"].negative_slope == pytest.approx(0.75)
    # x·σ(kx) is xσ of another scale: its slope spans the same range
    assert properties["rand_smooth_leaky"].floor == pytest.approx(1.0998393 * 0.45 - 0.0998393, abs=1e-6)
    assert [properties[name].floor for name in ("relu", "tanh", "swish", "elu")] == [0, 0, 0, 0]
    assert properties["crelu"].floor == pytest.approx(1)
    assert properties["deep_fourier"].floor == pytest.approx(1)


def test_functions_of_torch_have_properties_too():
    p = compute(nn.LeakyReLU(-0.5))  # it jumps over zero
    assert (p.floor, p.monotone) == (pytest.approx(0.5), False)
    # self-normalising needs a stable fixed point
    assert [compute(unit).self_normalizing for unit in (nn.Identity(), nn.LeakyReLU(1.0), nn.SELU())] == [0, 0, 1]


@pytest.mark.parametrize("name", sorted(set(activations.names()) - {"crelu", "deep_fourier", "swiglu"}))
def test_the_derivative_is_that_of_finite_differences(name):
    module = activation(name).double()
    z = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    slopes = derivative(module, z)
    assert module.training
    module.eval()
    with torch.no_grad():
        expected = (module(z + 1e-6) - module(z - 1e-6)) / 2e-6
    torch.testing.assert_close(slopes, expected, rtol=1e-5, atol=1e-7)


def test_the_derivative_of_two_features_is_the_norm_and_of_swiglu_that_of_each_half():
    z = torch.randn(5, 3, 4, 4)
    torch.testing.assert_close(derivative(activation("deep_fourier"), z), torch.ones_like(z))
    torch.testing.assert_close(derivative(activation("crelu"), z), torch.ones_like(z))
    gate, value = torch.randn(5, 3), torch.randn(5, 3)
    slopes = derivative(activation("swiglu"), torch.cat([gate, value], -1))
    torch.testing.assert_close(slopes[:, 3:], nn.functional.silu(gate))
    torch.testing.assert_close(slopes[:, :3], derivative(activation("swish"), gate) * value)


@torch.no_grad()
def test_the_derivative_draws_nothing_and_works_without_gradients():
    state = torch.get_rng_state()
    assert derivative(activation("rrelu", lower=0.2, upper=0.4), -torch.ones(3)).tolist() == pytest.approx([0.3] * 3)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("name", activations.names())
def test_the_gain_keeps_the_second_moment(name):
    module = activation(name).eval()
    samples = torch.randn(200_000, 2, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        scaled = initial_gain(module) * module(samples)
    assert float(scaled.square().mean()) == pytest.approx(1, abs=0.025)


def test_gains_equal_the_closed_forms():
    for name in ("relu", "crelu", "deep_fourier"):
        assert initial_gain(activation(name)) == pytest.approx(math.sqrt(2), rel=1e-12)
    assert initial_gain(activation("selu")) == pytest.approx(1, abs=1e-6)
    for slope in (0.01, 0.6):
        gain = initial_gain(activation("leaky_relu", negative_slope=slope))
        assert gain == pytest.approx(nn.init.calculate_gain("leaky_relu", slope), rel=1e-9)
    # elu by hand: E[(eˣ−1)²; x<0] = e²Φ(−2) − 2e^½Φ(−1) + ½, and E[x²; x>0] = ½
    phi = torch.special.ndtr
    one, two = (float(phi(torch.tensor(-k, dtype=torch.float64))) for k in (1.0, 2.0))
    moment = math.e**2 * two - 2 * math.sqrt(math.e) * one + 1
    assert initial_gain(activation("elu")) == pytest.approx(1 / math.sqrt(moment), rel=1e-9)
    assert initial_gain(activation("tanh")) == pytest.approx(1.592537, abs=1e-6)


def test_the_gain_leaves_the_module_as_it_was():
    module = activation("prelu")
    before = module.weight.clone()
    initial_gain(module)
    assert module.training
    assert module.weight.dtype == torch.float32
    assert torch.equal(module.weight, before)


def test_a_dead_function_has_no_gain():
    with pytest.raises(ValueError, match="has no gain"):
        initial_gain(nn.Threshold(100, 0))
