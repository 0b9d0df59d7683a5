"""A swap during training changes the activation, and keeps weights and names."""

import copy

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import Learner, StackedLinear, Units, learner_for, make, parse_hook, snapshot
from supple.networks.stacked import StackedConv2d

IMAGES = torch.randn(3, 5, 2, 6, 6, generator=torch.Generator().manual_seed(1))


class Network(nn.Module):
    """A convolution and two linear layers, plain or a stack; the activations are defined after the layers."""

    def __init__(self, activation: str = "relu", members: int = 0) -> None:
        super().__init__()
        units = Units(activation, members)
        self.convolution = StackedConv2d(members, 2, 4, 3) if members else nn.Conv2d(2, 4, 3)
        self.hidden = StackedLinear(members, 64, 8) if members else nn.Linear(64, 8)
        self.head = StackedLinear(members, 8, 2) if members else nn.Linear(8, 2)
        self.activations = nn.ModuleList([units(4, axis=-3), units(8)])

    def forward(self, images: Tensor) -> Tensor:
        first, second = self.activations
        return self.head(second(self.hidden(first(self.convolution(images)).flatten(-3))))


def build(activation: str = "relu", members: int = 0, seed: int = 0, kind: type = Network) -> Learner:
    torch.manual_seed(seed)
    module = kind(activation, members)
    inputs = IMAGES if members else IMAGES[0]
    return learner_for(
        module, torch.optim.Adam(module.parameters(), lr=1e-2), probe=lambda: (inputs,),
        loss=lambda: (module(inputs) - 1).square().mean((-1, -2)).sum(),
        followers=(copy.deepcopy(module).requires_grad_(False),),
        units=("activations.0", "activations.1"),
    )  # fmt: skip


def train(learner: Learner, steps: int = 2) -> Learner:
    assert learner.optimizer
    for _ in range(steps):
        learner.optimizer.zero_grad()
        learner.loss().backward()
        learner.optimizer.step()
    return learner


@torch.no_grad()
def outputs(learner: Learner) -> list[Tensor]:
    return [module(*(learner.probe() or ())) for module in (learner.module, *learner.followers)]


def list_trained(learner: Learner) -> list[int]:
    assert learner.optimizer
    return sorted(id(p) for group in learner.optimizer.param_groups for p in group["params"])


@pytest.mark.slow
@pytest.mark.parametrize("members", [0, 3])
@pytest.mark.parametrize("text", ["leaky_relu(negative_slope=0.6)", "tanh", "prelu(granularity=neuron)", "rational"])
def test_the_network_equals_one_that_was_built_with_the_new_activation(text, members):
    learner, expected = train(build("relu", members)), build(text, members)
    before, slots = snapshot(learner.module), {p: dict(s) for p, s in learner.optimizer.state.items()}
    swap = make("swap", activation=text)
    swap.attach(learner)
    swap.apply(learner)
    for module, other in zip((learner.module, *learner.followers), (expected.module, *expected.followers), strict=True):
        assert [n for n, _ in module.named_modules()] == [n for n, _ in other.named_modules()]
        assert {n: p.shape for n, p in module.named_parameters()} == {n: p.shape for n, p in other.named_parameters()}
        other.load_state_dict(before, strict=False)
    learner.followers[0].load_state_dict(before, strict=False)
    for mine, theirs in zip(outputs(learner), outputs(expected), strict=True):
        assert torch.equal(mine, theirs)
    assert all(torch.equal(learner.module.get_parameter(name), value) for name, value in before.items())
    assert all(learner.optimizer.state[p] == s for p, s in slots.items())
    assert list_trained(learner) == sorted(map(id, learner.module.parameters()))
    assert learner.initial.keys() == dict(learner.module.named_parameters()).keys()
    assert not any(p.requires_grad for p in learner.followers[0].parameters())


def test_parameters_of_the_old_activation_leave_and_those_of_the_new_one_learn():
    learner = train(build("prelu"))
    old = list(learner.module.activations.parameters())
    make("swap", activation="prelu(init=0.4)").apply(learner)
    new = list(learner.module.activations.parameters())
    assert not {id(p) for p in old} & set(list_trained(learner))
    assert all(p not in learner.optimizer.state for p in old)
    for name in ("activations.0.weight", "activations.1.weight"):
        assert learner.initial[name].item() == pytest.approx(0.4)
        assert name not in learner.redraw()
    train(learner)
    assert all(float(p.detach()) != pytest.approx(0.4) for p in new)
    make("swap", activation="elu").apply(learner)
    assert learner.initial.keys() == dict(learner.module.named_parameters()).keys()
    assert list_trained(learner) == sorted(map(id, learner.module.parameters()))
    train(learner)


def test_a_global_slope_is_shared_within_a_network_and_not_with_its_followers():
    learner = build()
    make("swap", activation="prelu(granularity=global)").apply(learner)
    first, second = learner.module.activations
    assert first.weight is second.weight
    assert learner.followers[0].activations[0].weight is not first.weight
    assert list_trained(learner) == sorted(map(id, learner.module.parameters()))


def test_a_full_reset_after_a_swap_restores_the_weights_of_step_0_and_keeps_the_activation():
    learner = train(build())
    make("swap", activation="prelu").apply(learner)
    train(learner)
    for toward in ("initial", "fresh"):
        make("reset", toward=toward).apply(learner)
        assert all(float(p.detach()) == 0.25 for p in learner.module.activations.parameters())
    make("reset").apply(learner)
    fresh = build("prelu")
    assert all(torch.equal(p, fresh.module.get_parameter(n)) for n, p in learner.module.named_parameters())


def test_with_muon_adam_trains_the_learned_slopes():
    learner = build()
    make("muon").apply(learner)
    make("swap", activation="prelu").apply(learner)
    (matrices,) = learner.optimizer.matrices()
    assert len(matrices["params"]) == 1
    train(learner)
    assert all(float(p.detach()) != 0.25 for p in learner.module.activations.parameters())


@pytest.mark.slow
def test_members_draw_from_generators_of_their_own():
    learner = build(members=3)
    learner.activation_draws = [torch.Generator().manual_seed(i) for i in range(3)]
    make("swap", activation="rand_smooth_leaky").apply(learner)
    together = learner.module(IMAGES)
    for i in range(3):
        alone = build()
        alone.module.load_state_dict({name: value[i] for name, value in learner.module.state_dict().items()})
        alone.activation_draws = [torch.Generator().manual_seed(i)]
        make("swap", activation="rand_smooth_leaky").apply(alone)
        torch.testing.assert_close(together[i], alone.module(IMAGES[i]), rtol=1e-4, atol=1e-5)


def test_one_module_under_two_names_is_replaced_under_both():
    class Twice(Network):
        def __init__(self, activation: str, members: int) -> None:
            super().__init__(activation, members)
            self.last = self.activations[1]

    learner = build(kind=Twice)
    make("swap", activation="tanh").apply(learner)
    assert learner.module.last is learner.module.activations[1]
    assert isinstance(learner.module.last, nn.Tanh)


def test_an_activation_with_parameters_needs_no_quotes():
    bare, quoted = (
        parse_hook(f"swap(activation={text})@0.5")
        for text in ("leaky_relu(negative_slope=0.6)", "'leaky_relu(negative_slope=0.6)'")
    )
    assert bare
    assert quoted
    assert bare.intervention.params == {"activation": "leaky_relu(negative_slope=0.6)"} == quoted.intervention.params
    assert bare.text == quoted.text
    assert (parse_hook(bare.text) or bare).intervention.params == bare.intervention.params


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("crelu", "swap: crelu changes the number of features"),
        ("swiglu", "swiglu changes"),
        ("deep_fourier", "deep_fourier changes"),
        ("leaky_reluu", "unknown activation 'leaky_reluu': did you mean 'leaky_relu'"),
        ("elu(beta=1)", "elu has no parameter 'beta'"),
    ],
)
def test_an_activation_that_changes_widths_is_refused_at_construction(text, message):
    with pytest.raises(ValueError, match=message) as refusal:
        make("swap", activation=text)
    assert "\n" not in str(refusal.value)


def test_a_network_whose_activations_cannot_be_replaced_is_refused():
    swap = make("swap", activation="elu")
    paired = nn.Sequential(nn.Linear(4, 4), Units("crelu")(8), nn.Linear(8, 2))
    with pytest.raises(ValueError, match="CReLU changes the number of features"):
        swap.attach(learner_for(paired))
    block = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 2))
    with pytest.raises(ValueError, match="'1' is a Sequential, not an activation module"):
        swap.attach(learner_for(block, units=("1",)))
    with pytest.raises(ValueError, match="'model' has no hidden units"):
        swap.attach(learner_for(nn.Sequential(nn.Linear(4, 2))))
