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
def test_an_activation_fits_the_layers_around_it(text, members):
    units = Units(text, members)
    before, after = units.preactivations(12), units.features(12)
    stack = (members,) if members else ()
    assert units(12)(torch.randn(*stack, 5, before)).shape == (*stack, 5, after)
    assert units(12, axis=-3)(torch.randn(*stack, 5, before, 4, 2)).shape == (*stack, 5, after, 4, 2)


def test_a_crelu_network_has_the_shapes_of_the_paper():
    units = Units("crelu")
    assert (units.preactivations(100), units.features(100)) == (50, 100)  # Appendix B.3


def test_swiglu_weighs_as_much_as_two_matrices():
    units, width, d = Units("swiglu"), 1536, 384
    weights = d * units.preactivations(width) + units.features(width) * d
    assert weights == 2 * d * width
    assert units.preactivations(100) == 2 * units.features(100) == 2 * 67


@pytest.mark.parametrize("name", ["crelu", "deep_fourier"])
def test_odd_widths_are_refused_in_one_line(name):
    with pytest.raises(ValueError, match=f"^{name} makes two features of each pre-activation: an even width, not 101$"):
        Units(name).preactivations(101)
    with pytest.raises(ValueError, match="an even width"):
        Units(name)(101)


def test_a_negative_number_of_members_is_refused():
    with pytest.raises(ValueError, match=r"1 member or more .* got"):
        Units("relu", members=-1)


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
    assert torch.equal(module(x), expected)


@pytest.mark.parametrize("text", RANDOM)
def test_without_generators_the_members_of_a_stack_still_draw_their_own(text):
    x = -torch.ones(2, 5, 4)
    first, second = Units(text, members=2)(4)(x)
    assert not torch.equal(first, second)


def test_one_generator_for_each_seed_draws_for_its_networks_at_once():
    stack, alone = Units("rrelu", 6)(4), Units("rrelu", 2)(4)
    set_generators(stack, generators(7, 8, 9))
    x = -torch.rand(6, 5, 4)
    together = stack(x)
    for i, seed in enumerate((7, 8, 9)):
        set_generators(alone, generators(seed))
        assert torch.equal(together[2 * i : 2 * i + 2], alone(x[2 * i : 2 * i + 2]))
    stack.draw_ahead()
    again = stack(x)
    for i, seed in enumerate((7, 8, 9)):
        set_generators(alone, generators(seed))
        alone(x[2 * i : 2 * i + 2])
        assert torch.equal(again[2 * i : 2 * i + 2], alone(x[2 * i : 2 * i + 2]))


def test_generators_must_be_as_many_as_members():
    net = nn.Sequential(nn.Linear(2, 4), Units("rrelu", members=2)(4))
    with pytest.raises(ValueError, match="'1' needs 2 generators, not 3"):
        set_generators(net, generators(1, 2, 3))


def test_a_network_with_generators_can_be_copied():
    module = Units("rrelu")(4)
    set_generators(module, generators(1))
    x = -torch.ones(3, 4)
    assert torch.equal(copy.deepcopy(module)(x), module(x))


def network(text, members=0):
    units = Units(text, members)
    layer = (lambda a, b: StackedLinear(members, a, b)) if members else nn.Linear
    return nn.Sequential(layer(3, 4), units(4), layer(4, 6), units(6), layer(6, 1))


@pytest.mark.parametrize(
    ("granularity", "members", "sizes"),
    [
        ("global", 0, [(1,)]),
        ("layer", 0, [(1,), (1,)]),
        ("neuron", 0, [(4,), (6,)]),
        ("global", 2, [(2, 1)]),
        ("layer", 2, [(2, 1), (2, 1)]),
        ("neuron", 2, [(2, 4), (2, 6)]),
    ],
)
@pytest.mark.parametrize("name", ["prelu", "bo_prelu"])
def test_slopes_are_those_of_the_network_of_layers_or_of_neurons(name, granularity, members, sizes):
    torch.manual_seed(0)  # some draws leave a layer without negative pre-activations, and its slope without a gradient
    net = network(f"{name}(granularity={granularity})", members)
    slopes = [tuple(p.shape) for key, p in net.named_parameters() if key.startswith(("1.", "3."))]
    assert slopes == sizes
    net(torch.randn(2, 5, 3) if members else torch.randn(5, 3)).sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in net.parameters())


def test_the_global_slope_stays_one_in_a_copy():
    net = copy.deepcopy(network("prelu(granularity=global)"))
    assert net[1].weight is net[3].weight


@pytest.mark.parametrize("text", TEXTS)
def test_every_activation_counts_as_units_of_its_network(text):
    units = Units(text)
    net = nn.Sequential(nn.Linear(3, units.preactivations(4)), units(4), nn.Linear(units.features(4), 2), nn.Tanh())
    assert unit_names(net) == ("1",)
