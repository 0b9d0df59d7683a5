"""`Units`: activations in plain and stacked networks, of features and of images."""

import copy

import pytest
import torch
from torch import nn

from supple.interventions import StackedLinear, unit_names
from supple.networks.activations import Units, activations, set_generators

NEURONS = ["prelu(granularity=neuron)", "bo_prelu(granularity=neuron)"]
TEXTS = [*activations.names(), *NEURONS, "prelu(granularity=global)", "rational(version=D)"]
RANDOM = ["rrelu", "rand_smooth_leaky", "rand_smooth_leaky(draws=element)", "rselu", "rational(version=D)"]


def generators(*seeds):
    return [torch.Generator().manual_seed(seed) for seed in seeds]


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("members", [0, 3])
def test_an_activation_fits_the_layers_around_it_and_counts_as_units(text, members):
    units = Units(text, members)
    before, after = units.preactivations(12), units.features(12)
    stack = (members,) if members else ()
    assert units(12)(torch.randn(*stack, 5, before)).shape == (*stack, 5, after)
    assert units(12, axis=-3)(torch.randn(*stack, 5, before, 4, 2)).shape == (*stack, 5, after, 4, 2)
    assert unit_names(network(text, members)) == ("1", "3")


def test_widths_are_those_of_the_papers():
    crelu, swiglu = Units("crelu"), Units("swiglu")
    assert (crelu.preactivations(100), crelu.features(100)) == (50, 100)  # Appendix B.3
    assert swiglu.preactivations(100) == 2 * swiglu.features(100) == 2 * 67  # the weights of two matrices
    with pytest.raises(ValueError, match=r"^crelu makes two features .* an even width, not 101$"):
        crelu.preactivations(101)


def mutated(module):
    """Give every learned number a value of its own."""
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.add_(0.1 * torch.rand(parameter.shape, generator=torch.Generator().manual_seed(i)))
    return module


@pytest.mark.parametrize("text", [*TEXTS[:-2], *RANDOM])
@pytest.mark.parametrize("axis", [-1, -3])
def test_a_stack_gives_what_separate_networks_give(text, axis):
    stack = mutated(Units(text, members=3)(4, axis))
    width = Units(text).preactivations(4)
    x = torch.randn(3, 5, width, 2, 2) if axis == -3 else torch.randn(3, 5, width)
    set_generators(stack, generators(7, 8, 9))
    together = [stack(x) for _ in range(2)]  # the second passes go on in the streams of the first
    for member, seed in enumerate((7, 8, 9)):
        alone = Units(text)(4, axis)
        with torch.no_grad():
            for own, stacked in zip(alone.parameters(), stack.parameters(), strict=True):
                assert stacked[member].shape == own.shape
                own.copy_(stacked[member])
        set_generators(alone, generators(seed))
        for outputs in together:
            torch.testing.assert_close(alone(x[member]), outputs[member], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("text", RANDOM)
def test_a_network_draws_the_same_from_a_generator_as_from_the_global_one(text):
    x, module = torch.randn(6, 4), Units(text)(4)
    torch.manual_seed(5)
    expected = module(x)
    set_generators(module, generators(5))
    copied = copy.deepcopy(module)
    assert torch.equal(module(x), expected)
    assert torch.equal(copied(x), expected)


@pytest.mark.parametrize("text", RANDOM)
def test_without_generators_the_members_of_a_stack_still_draw_their_own(text):
    first, second = Units(text, members=2)(4)(-torch.ones(2, 5, 4))
    assert not torch.equal(first, second)


def test_one_generator_for_each_seed_draws_for_its_networks_at_once():
    stack, alone = Units("rrelu", 6)(4), Units("rrelu", 2)(4)
    set_generators(stack, generators(7, 8, 9))
    x = -torch.rand(6, 5, 4)
    first = stack(x)
    stack.draw_ahead()
    second = stack(x)
    for i, seed in enumerate((7, 8, 9)):
        set_generators(alone, generators(seed))
        own = slice(2 * i, 2 * i + 2)
        assert torch.equal(first[own], alone(x[own]))
        assert torch.equal(second[own], alone(x[own]))
    with pytest.raises(ValueError, match="needs 6 generators, not 4"):
        set_generators(stack, generators(1, 2, 3, 4))


def network(text, members=0):
    units = Units(text, members)
    layer = (lambda a, b: StackedLinear(members, a, b)) if members else nn.Linear
    before, after = units.preactivations, units.features
    return nn.Sequential(layer(3, before(4)), units(4), layer(after(4), before(6)), units(6), layer(after(6), 1))


@pytest.mark.parametrize(("granularity", "sizes"), [("global", [1]), ("layer", [1, 1]), ("neuron", [4, 6])])
@pytest.mark.parametrize("members", [0, 2])
@pytest.mark.parametrize("name", ["prelu", "bo_prelu"])
def test_slopes_are_those_of_the_network_of_layers_or_of_neurons(name, members, granularity, sizes):
    torch.manual_seed(0)  # some draws leave a layer without negative pre-activations, and its slope without a gradient
    net = copy.deepcopy(network(f"{name}(granularity={granularity})", members))
    slopes = [p.shape for key, p in net.named_parameters() if key.startswith(("1.", "3."))]
    assert slopes == [(members, size) if members else (size,) for size in sizes]
    net(torch.randn(2, 5, 3) if members else torch.randn(5, 3)).sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in net.parameters())
