"""Activations against plain formulas, their draws, and the parameters that they refuse."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.networks.activations import activation, activations, parse_activation
from supple.registry import CallSyntaxError, UnknownName

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


def test_prelu_learns_one_slope_for_the_layer():
    assert [p.numel() for p in activation("prelu").parameters()] == [1]


def test_rand_smooth_leaky_draws_one_slope_for_each_forward():
    torch.manual_seed(0)
    module = activation("rand_smooth_leaky", lower=0.3, upper=0.6, c=0.8, p=1.0)
    x = torch.randn(64, 8, dtype=torch.float64)
    gate = x * sigmoid(0.8 * x)
    slopes = torch.stack([(module(x) - gate) / (x - gate) for _ in range(200)])  # solve eq. 2 for r
    per_forward = slopes.flatten(1)
    torch.testing.assert_close(per_forward.min(1).values, per_forward.max(1).values, rtol=0, atol=1e-9)
    drawn = per_forward[:, 0]
    assert drawn.min() >= 0.3
    assert drawn.max() <= 0.6
    assert drawn.unique().numel() == 200
    # U(0.3, 0.6) has standard deviation 0.0866: its mean over 200 draws lies within 4 × 0.0061
    assert abs(drawn.mean() - 0.45) < 0.025
    assert abs(drawn.std() - 0.0866) < 0.015


def test_rand_smooth_leaky_draws_a_slope_for_each_element_if_asked():
    torch.manual_seed(0)
    module = parse_activation("rand_smooth_leaky(draws=element)")
    x = torch.randn(1000, dtype=torch.float64)
    gate = x * sigmoid(0.8 * x)
    slopes = (module(x) - gate) / (x - gate)
    assert slopes.unique().numel() == 1000
    assert slopes.min() >= 0.3
    assert slopes.max() <= 0.6
    assert abs(slopes.mean() - 0.45) < 0.011  # four standard errors
    module.eval()
    torch.testing.assert_close(module(x), 0.45 * x + 0.55 * gate)


def test_rrelu_draws_a_slope_for_each_element():
    torch.manual_seed(0)
    slopes = -activation("rrelu")(-torch.ones(1000))
    assert slopes.unique().numel() > 900
    assert slopes.min() >= 0.125
    assert slopes.max() <= 1 / 3


def test_rselu_draws_its_negative_scale_for_each_element():
    torch.manual_seed(0)
    scale = -activation("rselu")(torch.full((1000,), -50.0)) / 1.0507009873554805
    assert scale.unique().numel() > 900
    assert scale.min() >= 0.9232
    assert scale.max() <= 2.4232
    assert abs(scale.mean() - 1.6732) < 0.06  # four standard errors of U(0.92, 2.42)'s mean


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


def test_relu_has_no_floor():
    assert derivative(activation("relu"))[X < 0].abs().max() == 0


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
    ("text", "message"),
    [
        ("smooth_leaky(p=0)", "smooth_leaky: p must be positive and finite, not 0"),
        ("smooth_leaky(c=-1)", "smooth_leaky: c must be positive and finite, not -1"),
        ("smooth_leaky(slope=1)", "smooth_leaky has no parameter 'slope' (parameters: alpha, c, p)"),
        ("rand_smooth_leaky(lower=0.7)", "rand_smooth_leaky: lower must not exceed upper, but 0.7 > 0.6"),
        ("rrelu(lower=1)", f"rrelu: lower must not exceed upper, but 1 > {1 / 3}"),
        ("elu(alpha=0)", "elu: alpha must be positive and finite, not 0"),
        ("prelu(granularity=unit)", 'prelu: granularity should be one of global, layer, neuron, but is "unit"'),
        (
            "prelu(granularity=neuron)",
            "prelu: granularity=neuron needs the width of the layer; build it with Units",
        ),
        ("bo_prelu(alpha=1)", "bo_prelu: alpha must lie between lower=0.5 and upper=1.0, got 1"),
        ("rselu(lower=-1)", "rselu: lower must be positive and finite, not -1"),
        ("gelu(beta=0)", "gelu: beta must be positive and finite, not 0"),
        ("selu(scale=0)", "selu: scale must be positive and finite, not 0"),
        ("crelu(alpha=0)", "crelu has no parameter 'alpha' (it takes no parameters)"),
        ("rational(version=E)", 'rational: version should be one of A, B, C, D, but is "E"'),
        ("rational(degrees=[5])", "rational: degrees must be two numbers from 1 to 10, those of P and Q, got (5,)"),
        ("leaky_relu(negative_slope=big)", 'leaky_relu: negative_slope should be a finite number, but is "big"'),
        ("relu(inplace=true)", "relu has no parameter 'inplace' (it takes no parameters)"),
    ],
)
def test_bad_parameters_are_refused_in_one_line(text, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole message is compared
        parse_activation(text)
    assert str(caught.value) == message


def test_unknown_names_and_bad_texts_are_refused():
    with pytest.raises(UnknownName, match="unknown activation 'rleu': did you mean 'relu'"):
        activation("rleu")
    with pytest.raises(CallSyntaxError, match="character 6"):
        parse_activation("relu(")


@settings(max_examples=20)
@given(st.floats(-1e6, 1e6))
def test_bo_prelu_never_leaves_its_bounds(weight):
    module = activation("bo_prelu", alpha=0.6, lower=0.5, upper=0.8)
    with torch.no_grad():
        module.weight.fill_(weight)
    assert 0.5 - 1e-6 <= -module(torch.tensor([-1.0])).item() <= 0.8 + 1e-6
