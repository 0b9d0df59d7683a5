"""A swap during training changes the activation, and keeps weights and names."""

import copy

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import Learner, StackedLinear, Units, make, parse_hook, snapshot
from supple.networks.stacked import StackedConv2d
from tests.interventions.common import exact, slots, update
from tests.interventions.common import learner as learner_of

IMAGES = torch.randn(3, 5, 2, 6, 6, generator=torch.Generator().manual_seed(1))


class Network(nn.Module):
    """A convolution and two linear layers, plain or a stack; the activations are defined after the layers, and the
    second has two names."""

    def __init__(self, activation: str = "relu", members: int = 0) -> None:
        super().__init__()
        units = Units(activation, members)
        self.convolution = StackedConv2d(members, 2, 4, 3) if members else nn.Conv2d(2, 4, 3)
        self.hidden = StackedLinear(members, 64, 8) if members else nn.Linear(64, 8)
        self.head = StackedLinear(members, 8, 2) if members else nn.Linear(8, 2)
        self.activations = nn.ModuleList([units(4, axis=-3), units(8)])
        self.last = self.activations[1]

    def forward(self, images: Tensor) -> Tensor:
        first, second = self.activations
        return self.head(second(self.hidden(first(self.convolution(images)).flatten(-3))))


def build(activation: str = "relu", members: int = 0) -> Learner:
    inputs = IMAGES if members else IMAGES[0]
    target = learner_of(lambda: Network(activation, members), torch.optim.Adam, inputs, lr=1e-2)
    target.followers = (copy.deepcopy(target.module).requires_grad_(False),)
    return target


def list_trained(learner: Learner) -> list[int]:
    return sorted(id(p) for group in learner.optimizer.param_groups for p in group["params"])


@pytest.mark.slow
@pytest.mark.parametrize("members", [0, 3])
@pytest.mark.parametrize("text", ["leaky_relu(negative_slope=0.6)", "tanh", "prelu(granularity=neuron)", "rational"])
def test_the_network_equals_one_that_was_built_with_the_new_activation(text, members):
    target, expected, swap = build("relu", members), build(text, members), make("swap", activation=text)
    update(target, count=2)
    before, state = snapshot(target.module), slots(target)
    swap.attach(target)
    swap.apply(target)
    target.followers[0].load_state_dict(before, strict=False)
    for module, other in zip((target.module, *target.followers), (expected.module, *expected.followers), strict=True):
        assert [n for n, _ in module.named_modules()] == [n for n, _ in other.named_modules()]
        other.load_state_dict(before, strict=False)
        exact(dict(module.named_parameters()), dict(other.named_parameters()))
        exact(module(*target.probe()), other(*target.probe()))
        assert module.last is module.activations[1]
    after = snapshot(target.module)
    exact({name: after[name] for name in before}, before)
    exact({name: value for name, value in slots(target).items() if name in state}, state)
    assert list_trained(target) == sorted(map(id, target.module.parameters()))
    assert target.initial.keys() == dict(target.module.named_parameters()).keys()
    assert not any(p.requires_grad for p in target.followers[0].parameters())


def test_parameters_of_the_old_activation_leave_and_those_of_the_new_one_learn_also_beside_muon():
    target = build("prelu")
    make("muon").apply(target)
    update(target)
    old, drawn = list(target.module.activations.parameters()), snapshot(target.module)
    target.redraw = lambda: drawn
    make("swap", activation="prelu(init=0.4)").apply(target)
    new = list(target.module.activations.parameters())
    assert len(target.optimizer.matrices()[0]["params"]) == 1
    assert not {id(p) for p in old} & set(list_trained(target))
    assert all(p not in target.optimizer.state for p in old)
    for name in ("activations.0.weight", "activations.1.weight"):
        assert target.initial[name].item() == pytest.approx(0.4)
        assert name not in target.redraw()
    update(target)
    assert all(float(p.detach()) != pytest.approx(0.4) for p in new)
    make("swap", activation="elu").apply(target)
    assert target.initial.keys() == dict(target.module.named_parameters()).keys()
    assert list_trained(target) == sorted(map(id, target.module.parameters()))
    update(target)


def test_a_global_slope_is_shared_within_a_network_and_not_with_its_followers():
    target = build()
    make("swap", activation="prelu(granularity=global)").apply(target)
    first, second = target.module.activations
    assert first.weight is second.weight
    assert target.followers[0].activations[0].weight is not first.weight
    assert list_trained(target) == sorted(map(id, target.module.parameters()))


def test_a_full_reset_after_a_swap_restores_the_weights_of_step_0_and_keeps_the_activation():
    target = build()
    update(target)
    make("swap", activation="prelu").apply(target)
    update(target)
    make("reset", toward="fresh").apply(target)
    assert all(float(p.detach()) == 0.25 for p in target.module.activations.parameters())
    make("reset").apply(target)
    exact(snapshot(target.module), snapshot(build("prelu").module))


@pytest.mark.slow
def test_members_draw_from_generators_of_their_own():
    target = build(members=3)
    target.activation_draws = [torch.Generator().manual_seed(i) for i in range(3)]
    make("swap", activation="rand_smooth_leaky").apply(target)
    together = target.module(IMAGES)
    for i in range(3):
        alone = build()
        alone.module.load_state_dict({name: value[i] for name, value in target.module.state_dict().items()})
        alone.activation_draws = [torch.Generator().manual_seed(i)]
        make("swap", activation="rand_smooth_leaky").apply(alone)
        torch.testing.assert_close(together[i], alone.module(IMAGES[i]), rtol=1e-4, atol=1e-5)


def test_an_activation_with_parameters_needs_no_quotes():
    text = "leaky_relu(negative_slope=0.6)"
    bare, quoted = (parse_hook(f"swap(activation={each})@0.5") for each in (text, f"'{text}'"))
    for hook in (bare, quoted, parse_hook(bare.text)):
        assert (hook.intervention.params, hook.text) == ({"activation": text}, bare.text)
