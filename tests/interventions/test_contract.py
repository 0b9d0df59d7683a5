import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import (
    EntropyTemperature,
    Learner,
    ReleasedCode,
    chain,
    contract_for,
    learner_for,
    make,
    snapshot,
)
from tests.interventions.common import changed, exact, refused, slots, update
from tests.interventions.common import learner as learner_of

HOOKS = {"fire": {"method": "polar"}, "snp": {"noise": 0.01}, "reset": {"what": "full"}}


def mlp() -> Learner:
    learner = learner_of(
        lambda: nn.Sequential(
            nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)
        ).double(),
        torch.optim.Adam,
    )
    update(learner, count=3)
    return learner


def dqn() -> Learner:
    """A small Nature CNN with a target network that lags behind it."""

    def network() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten(),
            nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 3),
        )  # fmt: skip

    learner = learner_of(network, torch.optim.Adam, torch.randn(16, 1, 8, 8), lr=1e-2)
    update(learner, count=3)
    learner.followers = (copy.deepcopy(learner.module).requires_grad_(False),)
    learner.capabilities = (ReleasedCode("dqn"),)
    update(learner, count=3)
    return learner


class Temperature(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(torch.tensor(-4.6))

    def forward(self, x: Tensor) -> Tensor:
        return self.log_alpha + x


def sac() -> Learner:
    """A critic with a lagging target and a temperature that has moved."""
    alpha = learner_of(Temperature, torch.optim.Adam)
    update(alpha, count=3)
    critic = mlp()
    critic.followers = (copy.deepcopy(critic.module).requires_grad_(False),)
    critic.capabilities = (ReleasedCode("sac"), EntropyTemperature(alpha))
    update(critic, count=3)
    return critic


def is_zero(states: dict[str, dict[str, Tensor]]) -> bool:
    return not any(value.any() for state in states.values() for value in state.values())


# -- uniform -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hook", "params"), [("fire", {"scope": "hidden"}), ("snp", {"scope": "head"}), ("reset", {"what": "encoder"})]
)
def test_uniform_zeroes_the_state_of_the_written_tensors_only(hook, params):
    learner = mlp()
    before = slots(learner)
    written = make(hook, **params).apply(learner)
    assert set(written) < set(before)
    exact(slots(learner), before | {n: {k: torch.zeros_like(v) for k, v in before[n].items()} for n in written})


def test_uniform_makes_followers_the_online_network_buffers_included():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    target = copy.deepcopy(module)
    parameters = nn.Module()  # as TorchRL's target parameters
    for name, value in module.state_dict().items():
        parameters.register_buffer(f"module_0_{name}".replace(".", "_"), value.clone())
    learner = learner_for(module, followers=(target, parameters))
    module(torch.randn(16, 4))
    make("fire").apply(learner)
    exact(snapshot(target), snapshot(module))
    exact(list(parameters.buffers()), list(module.state_dict().values()))
    with refused("which follows 'model', has no '2'"):
        make("swap", activation="tanh").attach(learner)
    with refused("a Linear cannot follow a Sequential"):
        learner_for(module, followers=(module[0],))


def test_parameters_without_optimizer_state_and_learners_without_optimizer_are_accepted():
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(module.parameters())
    for learner in (learner_for(module, optimizer), learner_for(module)):
        assert make("fire").apply(learner) == ["0.weight", "2.weight"]
    assert not optimizer.state


# -- as released: DQN ----------------------------------------------------------------------------------------

CONV = ["0.weight", "2.weight"]
CONV_BIASES = ["0.bias", "2.bias"]
LINEAR = ["5.weight", "5.bias", "7.weight", "7.bias"]


@pytest.mark.slow
@pytest.mark.parametrize("hook", ["fire", "snp"])
def test_as_released_dqn_rewrites_convolutions_restores_linear_layers_and_keeps_the_optimizer(hook):
    """FIRE's target network, by dqn_atari_resume.py: convolutions' weights copied over, linear layers to step 0."""
    learner = dqn()
    (target,) = learner.followers
    before, old, state = snapshot(learner.module), snapshot(target), slots(learner)
    written = make(hook, contract="as_released").apply(learner)
    exact(slots(learner), state)
    # FIRE rewrites matrices only; Shrink & Perturb takes the biases of its layers too
    convolutions = CONV if hook == "fire" else [*CONV, *CONV_BIASES]
    assert set(written) == {*convolutions, *LINEAR}
    assert changed(learner.module, before | {name: learner.initial[name] for name in LINEAR}) == set(convolutions)
    if hook == "fire":
        online = snapshot(learner.module)
        exact(snapshot(target), online | {name: old[name] for name in CONV_BIASES})


@pytest.mark.slow
@pytest.mark.parametrize("hook", ["snp", "reset"])
def test_as_released_dqn_applies_the_same_operation_to_the_target_network(hook):
    learner, twin = dqn(), dqn()
    copied = copy.deepcopy(learner.followers[0]).requires_grad_()
    # the target as an online network
    twin = replace(twin, module=copied, optimizer=None, layers=chain(copied), followers=())
    online, state = snapshot(learner.module), slots(learner)
    for each in (learner, twin):
        make(hook, contract="as_released").apply(each)
    exact(slots(learner), state)
    exact(snapshot(learner.followers[0]), snapshot(twin.module))
    # with snp the two were different networks, and still are
    assert bool(changed(learner.followers[0], snapshot(learner.module))) == (hook == "snp")
    assert changed(learner.module, online)


@pytest.mark.parametrize("contract", ["uniform", "as_released"])
def test_a_head_reset_of_dqn_restores_only_the_head_of_each_network(contract):
    learner = dqn()
    (target,) = learner.followers
    before, old, state = snapshot(learner.module), snapshot(target), slots(learner)
    written = make("reset", what="head", contract=contract).apply(learner)
    assert written == ["7.weight", "7.bias"]
    after = {name: learner.initial[name] for name in written}
    exact(snapshot(learner.module), before | after)
    exact(snapshot(target), (before if contract == "uniform" else old) | after)
    if contract == "uniform":
        assert is_zero({name: slots(learner)[name] for name in written})
    else:
        exact(slots(learner), state)


def test_the_same_operation_on_the_target_network_uses_the_same_draws():
    learner = dqn()
    make("reset", what="full", toward="fresh", contract="as_released").apply(learner)
    exact(snapshot(learner.followers[0]), snapshot(learner.module))
    learner = dqn()
    networks = learner.module, *learner.followers
    before = [snapshot(network) for network in networks]
    make("snp", lam=0.0, noise=0.1, contract="as_released").apply(learner)
    for name in CONV:
        noise = [snapshot(each)[name] - old[name] for each, old in zip(networks, before, strict=True)]
        assert noise[0].abs().max() > 0.05
        torch.testing.assert_close(*noise, rtol=0, atol=1e-6)


def test_a_network_without_the_layers_that_the_contract_restores_is_refused_at_attach():
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3))
    with refused("scope 'linear' names no layer"):
        make("fire", contract="as_released").attach(learner_for(module, capabilities=(ReleasedCode("dqn"),)))


# -- as released: SAC ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("contract", ["uniform", "as_released"])
@pytest.mark.parametrize("hook", HOOKS)
def test_as_released_sac_resets_every_slot_and_the_temperature_and_copies_to_the_target(hook, contract):
    """The uniform contract leaves the temperature alone."""
    learner = sac()
    alpha = learner.offers(EntropyTemperature).learner
    before, state = snapshot(alpha.module), slots(alpha)
    assert changed(alpha.module, alpha.initial) == {"log_alpha"}
    make(hook, contract=contract).apply(learner)
    exact(snapshot(learner.followers[0]), snapshot(learner.module))
    if contract == "uniform":
        exact((snapshot(alpha.module), slots(alpha)), (before, state))
    else:
        assert is_zero(slots(learner) | slots(alpha))
        assert not changed(alpha.module, alpha.initial)


# -- words ---------------------------------------------------------------------------------------------------


def test_an_unknown_contract_is_refused():
    with refused("unknown contract 'released'"):
        contract_for("fire", "released", mlp())


KEPT = {"replay, observation statistics, generators": "kept"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "hook", "params", "row"),
    [
        (dqn, "fire", {"scope": ("conv", "head")}, {
            "weights": "conv + head",
            "optimizer state": "zeroed in place for the tensors that were written",
            "target network": ":= online network",
        }),
        (dqn, "fire", {"contract": "as_released"}, {
            "weights": "conv; linear back to step 0",
            "optimizer state": "kept",
            "target network": "rewritten tensors := online network's",
        }),
        (sac, "snp", {"contract": "as_released"}, {
            "weights": "all",
            "optimizer state": "fresh (every tensor)",
            "target network": ":= online network",
            "temperature": "back to its start value",
        }),
        # parts that the learner lacks are left out
        (lambda: replace(mlp(), optimizer=None), "reset", {"what": "last", "count": 2, "toward": "fresh"}, {
            "weights": "last 2 → fresh",
        }),
    ],
)  # fmt: skip
def test_a_contract_is_described_in_words(build, hook, params, row):
    assert make(hook, **params).contract(build()) == row | KEPT
