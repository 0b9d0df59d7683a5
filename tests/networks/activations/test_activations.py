"""Activations against plain formulas, their draws, and the parameters that they refuse."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.networks.activations import activation, activations, parse_activation

X = torch.linspace(-30, 30, 60_001, dtype=torch.float64)
WIDENING = ("crelu", "deep_fourier", "swiglu")


def sigmoid(x):
    return 1 / (1 + torch.exp(-x))


def smooth_leaky(x, slope, c, p):
    return slope * x + (1 - slope) * x * sigmoid(c * x / p)


def derivative(module):
    x = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(module.double()(x).sum(), x)
    return gradient


FORMULAS = {
    "relu": lambda x: x * (x > 0),
    "leaky_relu(negative_slope=0.6)": lambda x: torch.where(x < 0, 0.6 * x, x),
    "prelu(init=0.3)": lambda x: torch.where(x < 0, 0.3 * x, x),
    "rrelu(lower=0.2,upper=0.4)": lambda x: torch.where(x < 0, 0.3 * x, x),
    "bo_prelu(alpha=0.65,lower=0.6,upper=0.8)": lambda x: torch.where(x < 0, 0.65 * x, x),
    "tanh": lambda x: 2 * sigmoid(2 * x) - 1,
    "sigmoid": sigmoid,
    "swish": lambda x: x * sigmoid(x),
    "swish(beta=2.5)": lambda x: x * sigmoid(2.5 * x),
    "gelu": lambda x: x * (1 + torch.erf(x / math.sqrt(2))) / 2,
    "gelu(beta=0.5)": lambda x: x * (1 + torch.erf(0.5 * x / math.sqrt(2))) / 2,
    "elu(alpha=2.0)": lambda x: torch.where(x < 0, 2 * (torch.exp(x.clamp(max=0)) - 1), x),
    "celu(alpha=2.0)": lambda x: torch.where(x < 0, 2 * (torch.exp(x.clamp(max=0) / 2) - 1), x),
    "selu": lambda x: 1.0507009873554805 * torch.where(x < 0, 1.6732632423543772 * (x.clamp(max=0).exp() - 1), x),
    "selu(alpha=3.7,scale=1.5)": lambda x: 1.5 * torch.where(x < 0, 3.7 * (x.clamp(max=0).exp() - 1), x),
    "rselu(lower=1.0,upper=2.0)": lambda x: (
        1.0507009873554805 * torch.where(x < 0, 1.5 * (x.clamp(max=0).exp() - 1), x)
    ),
    "crelu": lambda x: torch.cat([x * (x > 0), -x * (x < 0)]),
    "deep_fourier": lambda x: torch.cat([x.sin(), x.cos()]),
    "swiglu": lambda x: x[: len(x) // 2] * sigmoid(x[: len(x) // 2]) * x[len(x) // 2 :],
    "smooth_leaky": lambda x: smooth_leaky(x, 0.1, 5, 3),
    "smooth_leaky(alpha=0.3,c=0.3,p=0.1)": lambda x: smooth_leaky(x, 0.3, 0.3, 0.1),
    "rand_smooth_leaky": lambda x: smooth_leaky(x, 0.45, 0.8, 1),
    "rand_smooth_leaky(lower=0.673,upper=2.673,c=0.5,p=0.5)": lambda x: smooth_leaky(x, 1.673, 0.5, 0.5),
}


@pytest.mark.parametrize("text", FORMULAS)
def test_in_eval_mode_each_is_its_formula(text):
    module = parse_activation(text).double().eval()
    # prelu's slope is a float32 parameter, so 0.3 is only 0.3 to single precision
    x = X[1:] if text == "swiglu" else X  # two halves
    torch.testing.assert_close(module(x), FORMULAS[text](x), rtol=1e-7, atol=1e-12)


def test_every_registered_activation_is_checked_against_a_formula():
    assert {text.split("(")[0] for text in FORMULAS} | {"rational"} == set(activations.names())


def drawn(text, x, passes=1):
    """Return the slopes r of eq. 2 that rand_smooth_leaky draws at each x, (passes, *x.shape)."""
    torch.manual_seed(0)
    module, gate = parse_activation(text), x * sigmoid(0.8 * x)
    return torch.stack([(module(x) - gate) / (x - gate) for _ in range(passes)])


def test_rand_smooth_leaky_draws_one_slope_for_each_forward_or_for_each_element():
    x = torch.randn(64, 8, dtype=torch.float64)
    slopes = drawn("rand_smooth_leaky", x, passes=200).flatten(1)
    torch.testing.assert_close(slopes.min(1).values, slopes.max(1).values, rtol=0, atol=1e-9)
    for own in (slopes[:, 0], drawn("rand_smooth_leaky(draws=element)", x).flatten()):
        assert own.unique().numel() == own.numel()
        assert 0.3 <= own.min() < own.max() <= 0.6
        # U(0.3, 0.6) has standard deviation 0.0866: its mean over 200 draws lies within 4 × 0.0061
        assert abs(own.mean() - 0.45) < 0.025
        assert abs(own.std() - 0.0866) < 0.015


@pytest.mark.parametrize(
    ("name", "x", "unit", "low", "high"),
    [("rrelu", -1.0, -1.0, 0.125, 1 / 3), ("rselu", -50.0, -1.0507009873554805, 0.9232, 2.4232)],
)
def test_rrelu_and_rselu_draw_for_each_element(name, x, unit, low, high):
    torch.manual_seed(0)
    scale = activation(name)(torch.full((1000,), x)) / unit
    assert scale.unique().numel() > 900
    assert low <= scale.min() < scale.max() <= high
    assert abs(scale.mean() - (low + high) / 2) < 4 * (high - low) / 12**0.5 / 1000**0.5  # four standard errors


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["rrelu", "rand_smooth_leaky", "rand_smooth_leaky(draws=element)", "rselu", "rational(version=D)"]
)
def test_randomised_slopes_repeat_with_the_generator(name):
    module, x = parse_activation(name), torch.randn(32)
    torch.manual_seed(3)
    first = module(x)
    torch.manual_seed(3)
    assert torch.equal(first, module(x))
    assert not torch.equal(first, module(x))
    assert torch.equal(module.eval()(x), module(x))


@pytest.mark.parametrize(
    ("text", "floor"),
    [
        ("leaky_relu(negative_slope=0.6)", 0.6),
        ("prelu", 0.25),
        ("rrelu", (0.125 + 1 / 3) / 2),
        ("smooth_leaky", 0.010145),
        ("smooth_leaky(alpha=0.3,c=0.3,p=0.1)", 0.230112),
        ("smooth_leaky(alpha=2.0)", 0.900161),
        ("rand_smooth_leaky", 0.395088),
    ],
)
def test_the_leaky_family_keeps_its_derivative_floor(text, floor):
    slope = derivative(parse_activation(text).eval())
    assert slope.min() > 0
    assert float(slope.min()) == pytest.approx(floor, abs=2e-6)


@pytest.mark.slow
@settings(max_examples=30)
@given(st.floats(-0.5, 13), st.floats(0.5, 5), st.floats(0.5, 5))
def test_the_floor_of_smooth_leaky_depends_on_alpha_alone(alpha, c, p):
    slope = derivative(activation("smooth_leaky", alpha=alpha, c=c, p=p))
    lowest = min(1.0998393 * alpha - 0.0998393, 1.0998393 - 0.0998393 * alpha)
    assert float(slope.min()) == pytest.approx(lowest, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", activations.names())
def test_every_activation_compiles_into_one_graph(name):
    torch.compiler.reset()  # torch counts all modules of this process against one recompilation limit
    module, x = activation(name), torch.randn(4, 2)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    assert compiled(x).shape == module(x).shape
    module.eval()
    torch.testing.assert_close(compiled(x), module(x))


@pytest.mark.parametrize("name", sorted(set(activations.names()) - set(WIDENING)))
def test_shape_and_dtype_are_kept(name):
    x = torch.randn(2, 3, 4, 5)
    assert activation(name)(x).shape == x.shape
    assert activation(name)(x).dtype == x.dtype
    assert activation(name).bfloat16()(x.bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("smooth_leaky(p=0)", "smooth_leaky: p must be positive and finite, not 0"),
        ("smooth_leaky(slope=1)", r"has no parameter 'slope' \(parameters: alpha, c, p\)"),
        ("rand_smooth_leaky(lower=0.7)", "lower must not exceed upper, but 0.7 > 0.6"),
        ("prelu(granularity=unit)", "one of global, layer, neuron, but is"),
        ("prelu(granularity=neuron)", "needs the width of the layer"),
        ("bo_prelu(alpha=1)", "must lie between lower=0.5 and upper=1.0, got 1"),
        ("rational(degrees=[5])", "two numbers from 1 to 10"),
        ("leaky_relu(negative_slope=big)", "should be a finite number, but is"),
        ("rleu", "unknown activation 'rleu': did you mean 'relu'"),
        ("relu(", "character 6"),
    ],
)
def test_bad_texts_are_refused(text, words):
    with pytest.raises(ValueError, match=words):
        parse_activation(text)


@settings(max_examples=20)
@given(st.floats(-1e6, 1e6))
def test_bo_prelu_never_leaves_its_bounds(weight):
    module = activation("bo_prelu", alpha=0.6, lower=0.5, upper=0.8)
    with torch.no_grad():
        module.weight.fill_(weight)
    assert 0.5 - 1e-6 <= -module(torch.tensor([-1.0])).item() <= 0.8 + 1e-6
