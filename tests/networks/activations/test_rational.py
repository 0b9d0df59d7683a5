"""Rational activations: the quotient of each version, its start, its noise."""

import pytest
import torch
import torch.nn.functional as F

from supple.networks.activations import activation

pytestmark = pytest.mark.slow

X = torch.linspace(-3, 3, 601)
STARTS = {"relu": F.relu, "leaky_relu": F.leaky_relu, "swish": F.silu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


def by_powers(module, x):
    a, b = module.numerator.tolist(), module.denominator.tolist()
    first = 0 if module.version == "C" else 1
    terms = [c * x**j for j, c in enumerate(b, first)]
    below = sum(t.abs() for t in terms) if module.version == "A" else sum(terms).abs()
    return sum(c * x**j for j, c in enumerate(a)) / ((0.1 if module.version == "C" else 1) + below)


@pytest.mark.parametrize("version", "ABCD")
def test_each_version_is_its_quotient_of_polynomials(version):
    module = activation("rational", version=version, degrees=(3, 2), start="swish").double().eval()
    x = torch.linspace(-20, 20, 401, dtype=torch.float64)
    with torch.no_grad():  # other coefficients than the start's, whose denominators are never folded
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    torch.testing.assert_close(module(x), by_powers(module, x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("version", "start"), [("A", "leaky_relu"), ("B", "tanh"), ("C", "relu"), ("D", "swish")])
def test_it_starts_as_the_function_it_is_given(version, start):
    module = activation("rational", version=version, start=start).eval()
    torch.testing.assert_close(module(X), STARTS[start](X), rtol=0, atol=0.035)


def test_higher_degrees_start_closer():
    worst = [
        (activation("rational", version="B", degrees=degrees, start="relu").eval()(X) - F.relu(X)).abs().max().item()
        for degrees in ((3, 2), (5, 4), (7, 6))
    ]
    assert worst == sorted(worst, reverse=True)


def test_version_d_draws_noise_of_a_tenth_in_training_alone():
    torch.manual_seed(0)
    module = activation("rational", version="D", degrees=(1, 1), start="sigmoid")
    with torch.no_grad():
        module.numerator.copy_(torch.tensor([2.0, 0.0]))
        module.denominator.zero_()
        outputs = torch.stack([module(torch.ones(7)) for _ in range(300)])
    assert torch.equal(outputs.min(1).values, outputs.max(1).values)  # one draw for each forward pass
    assert outputs.min() >= 1.8
    assert outputs.max() <= 2.2
    assert outputs[:, 0].unique().numel() > 290
    assert torch.equal(module.eval()(torch.ones(7)), torch.full((7,), 2.0))
