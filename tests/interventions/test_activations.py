"""Activations against plain formulas and torch, and their gains against sampling and closed forms."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from supple.interventions.activations import activation, activations, initial_gain, parse_activation
from supple.interventions.grammar import HookSyntaxError
from supple.interventions.registry import UnknownName

X = torch.linspace(-30, 30, 60_001, dtype=torch.float64)


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
    "tanh": lambda x: 2 * sigmoid(2 * x) - 1,
    "sigmoid": sigmoid,
    "swish": lambda x: x * sigmoid(x),
    "swish(beta=2.5)": lambda x: x * sigmoid(2.5 * x),
    "gelu": lambda x: x * (1 + torch.erf(x / math.sqrt(2))) / 2,
    "elu(alpha=2.0)": lambda x: torch.where(x < 0, 2 * (torch.exp(x.clamp(max=0)) - 1), x),
    "smooth_leaky": lambda x: smooth_leaky(x, 0.1, 5, 3),
    "smooth_leaky(alpha=0.3,c=0.3,p=0.1)": lambda x: smooth_leaky(x, 0.3, 0.3, 0.1),
    "rand_smooth_leaky": lambda x: smooth_leaky(x, 0.45, 0.8, 1),
    "rand_smooth_leaky(lower=0.673,upper=2.673,c=0.5,p=0.5)": lambda x: smooth_leaky(x, 1.673, 0.5, 0.5),
}


@pytest.mark.parametrize("text", FORMULAS)
def test_in_eval_mode_each_is_its_formula(text):
    module = parse_activation(text).double().eval()
    # prelu's slope is a float32 parameter, so 0.3 is only 0.3 to single precision
    torch.testing.assert_close(module(X), FORMULAS[text](X), rtol=1e-7, atol=1e-12)


def test_every_registered_activation_is_checked_against_a_formula():
    assert {text.split("(")[0] for text in FORMULAS} == set(activations.names())


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


def test_rrelu_draws_a_slope_for_each_element():
    torch.manual_seed(0)
    slopes = -activation("rrelu")(-torch.ones(1000))
    assert slopes.unique().numel() > 900
    assert slopes.min() >= 0.125
    assert slopes.max() <= 1 / 3


@pytest.mark.parametrize("name", ["rrelu", "rand_smooth_leaky"])
def test_randomised_slopes_repeat_with_the_generator(name):
    module, x = activation(name), torch.randn(32)
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


@settings(max_examples=30, deadline=None)
@given(st.floats(-0.5, 13), st.floats(0.5, 5), st.floats(0.5, 5))
def test_the_floor_of_smooth_leaky_depends_on_alpha_alone(alpha, c, p):
    slope = derivative(activation("smooth_leaky", alpha=alpha, c=c, p=p))
    lowest = min(1.0998393 * alpha - 0.0998393, 1.0998393 - 0.0998393 * alpha)
    assert float(slope.min()) == pytest.approx(lowest, abs=1e-4)


def test_relu_has_no_floor():
    assert derivative(activation("relu"))[X < 0].abs().max() == 0


@pytest.mark.parametrize("name", activations.names())
def test_every_activation_compiles_into_one_graph(name):
    torch.compiler.reset()  # torch counts all modules of this process against one recompilation limit
    module, x = activation(name), torch.randn(4, 3)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    assert compiled(x).shape == x.shape
    module.eval()
    torch.testing.assert_close(compiled(x), module(x))


@pytest.mark.parametrize("name", activations.names())
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
        ("prelu(granularity=neuron)", "prelu: granularity must be 'layer', not 'neuron'"),
        ("leaky_relu(negative_slope=big)", "leaky_relu: negative_slope must be float, not 'big'"),
        ("relu(inplace=true)", "relu has no parameter 'inplace' (it takes no parameters)"),
    ],
)
def test_bad_parameters_are_refused_in_one_line(text, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole message is compared
        parse_activation(text)
    assert str(caught.value) == message


def test_infinite_parameters_are_refused():
    with pytest.raises(ValueError, match="swish: beta must be finite, not inf"):
        activation("swish", beta=math.inf)


def test_unknown_names_and_bad_texts_are_refused():
    with pytest.raises(UnknownName, match="unknown activation 'rleu': did you mean 'relu'"):
        activation("rleu")
    with pytest.raises(HookSyntaxError, match="character 6"):
        parse_activation("relu(")


@pytest.mark.parametrize("name", activations.names())
def test_the_gain_keeps_the_second_moment(name):
    module = activation(name).eval()
    samples = torch.randn(400_000, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        scaled = initial_gain(module) * module(samples)
    assert float(scaled.square().mean()) == pytest.approx(1, abs=0.015)


def test_gains_equal_the_closed_forms():
    assert initial_gain(activation("relu")) == pytest.approx(math.sqrt(2), rel=1e-12)
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
