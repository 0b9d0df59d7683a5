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

HOOKS = {"fire": {"method": "polar"}, "snp": {"noise": 0.01}, "reset": {"what": "full"}}
SLOTS = {"step", "exp_avg", "exp_avg_sq"}


def step(learner: Learner, loss: Tensor) -> None:
    learner.optimizer.zero_grad()
    loss.backward()
    learner.optimizer.step()


def train(learner: Learner, *shape: int) -> Learner:
    for _ in range(3):
        step(learner, learner.module(torch.randn(16, *shape)).square().sum())
    return learner


def mlp() -> Learner:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    return train(learner_for(module, torch.optim.Adam(module.parameters(), lr=1e-2)), 4)


def dqn() -> Learner:
    """A small Nature CNN with a target network that lags behind it."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 3),
    )  # fmt: skip
    target = copy.deepcopy(module).requires_grad_(False)
    learner = learner_for(module, torch.optim.Adam(module.parameters(), lr=1e-2), followers=(target,))
    train(learner, 1, 8, 8)
    target.load_state_dict(module.state_dict())
    return train(replace(learner, capabilities=(ReleasedCode("dqn"),)), 1, 8, 8)


class Temperature(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(torch.tensor(-4.6))

    def forward(self, x: Tensor) -> Tensor:
        return self.log_alpha + x


def sac() -> Learner:
    """A critic with a lagging target and a temperature that has moved."""
    alpha = Temperature()
    adam = torch.optim.Adam(alpha.parameters(), lr=1e-2)
    temperature = replace(mlp(), name="temperature", module=alpha, optimizer=adam, layers=(), units=(), initial={})
    train(temperature, 1)
    critic = mlp()
    target = copy.deepcopy(critic.module).requires_grad_(False)
    critic = replace(critic, followers=(target,), capabilities=(ReleasedCode("sac"), EntropyTemperature(temperature)))
    return train(critic, 4)


def slots(learner: Learner) -> dict[str, dict[str, Tensor]]:
    """A copy of the optimizer's state by parameter name."""
    named = {p: n for n, p in learner.module.named_parameters()}
    return {named[p]: {k: v.clone() for k, v in state.items()} for p, state in learner.optimizer.state.items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def is_zero(state: dict[str, Tensor]) -> bool:
    return state.keys() == SLOTS and not any(bool(value.any()) for value in state.values())


# -- in place ------------------------------------------------------------------------------------------------


# -- uniform -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hook", "params"), [("fire", {"scope": "hidden"}), ("snp", {"scope": "head"}), ("reset", {"what": "encoder"})]
)
def test_uniform_zeroes_the_state_of_the_written_tensors_only(hook, params):
    learner = mlp()
    before = slots(learner)
    written = make(hook, **params).apply(learner)
    assert set(written) < set(before)
    for name, state in slots(learner).items():
        assert is_zero(state) if name in written else same(state, before[name]), name


def test_uniform_makes_followers_the_online_network_buffers_included():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    target = copy.deepcopy(module)
    parameters = nn.Module()  # as TorchRL's target parameters
    for name, value in module.state_dict().items():
        parameters.register_buffer(f"module_0_{name}".replace(".", "_"), value.clone())
    learner = learner_for(module, torch.optim.SGD(module.parameters(), lr=0.1), followers=(target, parameters))
    train(learner, 4)
    make("fire").apply(learner)
    assert same(dict(target.state_dict()), dict(module.state_dict()))
    assert all(map(torch.equal, parameters.buffers(), module.state_dict().values()))
    with pytest.raises(ValueError, match="which follows 'model', has no '2'"):
        make("swap", activation="tanh").attach(learner)
    with pytest.raises(ValueError, match="a Linear cannot follow a Sequential"):
        learner_for(module, followers=(module[0],))


def test_uniform_leaves_the_temperature_alone():
    learner = sac()
    temperature = learner.offers(EntropyTemperature).learner
    before, state = snapshot(temperature.module), slots(temperature)
    make("fire").apply(learner)
    assert same(snapshot(temperature.module), before)
    assert same(slots(temperature)["log_alpha"], state["log_alpha"])


def test_parameters_without_optimizer_state_and_learners_without_optimizer_are_accepted():
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(module.parameters())
    assert make("fire").apply(learner_for(module, optimizer)) == ["0.weight", "2.weight"]
    assert not optimizer.state
    assert make("fire").apply(learner_for(module)) == ["0.weight", "2.weight"]


# -- as released: DQN ----------------------------------------------------------------------------------------

CONV, LINEAR = ("0", "2"), ("5", "7")


@pytest.mark.slow
@pytest.mark.parametrize("hook", HOOKS)
def test_as_released_dqn_keeps_the_whole_optimizer(hook):
    learner = dqn()
    before = slots(learner)
    make(hook, contract="as_released").apply(learner)
    assert all(same(state, before[name]) for name, state in slots(learner).items())


@pytest.mark.slow
@pytest.mark.parametrize("hook", ["fire", "snp"])
def test_as_released_dqn_rewrites_convolutions_and_restores_linear_layers_with_biases(hook):
    learner = dqn()
    before = snapshot(learner.module)
    written = make(hook, contract="as_released").apply(learner)
    after = snapshot(learner.module)
    for name in (f"{layer}.{part}" for layer in LINEAR for part in ("weight", "bias")):
        assert torch.equal(after[name], learner.initial[name]), name
        assert name in written
    for layer in CONV:
        assert not torch.equal(after[f"{layer}.weight"], before[f"{layer}.weight"])
        # FIRE rewrites matrices only; Shrink & Perturb takes the biases of its layers too
        assert torch.equal(after[f"{layer}.bias"], before[f"{layer}.bias"]) == (hook == "fire")


def test_fire_as_released_on_dqn_gives_the_target_network_the_tensors_that_it_wrote():
    """FIRE's dqn_atari_resume.py, line for line: convolutions' weights copied over, linear layers to step 0."""
    learner = dqn()
    (target,) = learner.followers
    before = snapshot(target)
    make("fire", contract="as_released").apply(learner)
    online, after = snapshot(learner.module), snapshot(target)
    for layer in CONV:
        assert torch.equal(after[f"{layer}.weight"], online[f"{layer}.weight"])
        assert torch.equal(after[f"{layer}.bias"], before[f"{layer}.bias"])
        assert not torch.equal(after[f"{layer}.bias"], online[f"{layer}.bias"])
    for name in (f"{layer}.{part}" for layer in LINEAR for part in ("weight", "bias")):
        assert torch.equal(after[name], learner.initial[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("hook", ["snp", "reset"])
def test_as_released_dqn_applies_the_same_operation_to_the_target_network(hook):
    learner = dqn()
    (target,) = learner.followers
    copied = copy.deepcopy(target).requires_grad_()
    # the target as an online network
    twin = replace(dqn(), module=copied, optimizer=None, layers=chain(copied), followers=())
    online = snapshot(learner.module)
    make(hook, contract="as_released").apply(learner)
    make(hook, contract="as_released").apply(twin)
    assert same(snapshot(target), snapshot(twin.module))
    if hook == "snp":  # the two were different networks, and still are
        assert not same(snapshot(target), snapshot(learner.module))
    assert not same(snapshot(learner.module), online)


@pytest.mark.parametrize("contract", ["uniform", "as_released"])
def test_as_released_a_head_reset_of_dqn_restores_only_the_head_of_each_network(contract):
    learner = dqn()
    (target,) = learner.followers
    before, old, state = snapshot(learner.module), snapshot(target), slots(learner)
    written = make("reset", what="head", contract=contract).apply(learner)
    assert written == ["7.weight", "7.bias"]
    after = snapshot(learner.module)
    for name in before:
        assert torch.equal(after[name], learner.initial[name] if name in written else before[name]), name
        zeroed = contract == "uniform" and name in written
        assert is_zero(slots(learner)[name]) if zeroed else same(slots(learner)[name], state[name]), name
    expected = after if contract == "uniform" else old | {name: after[name] for name in written}
    assert same(snapshot(target), expected)


def test_the_same_operation_on_the_target_network_uses_the_same_draws():
    learner = dqn()
    make("reset", what="full", toward="fresh", contract="as_released").apply(learner)
    assert same(snapshot(learner.followers[0]), snapshot(learner.module))
    learner = dqn()
    online, target = snapshot(learner.module), snapshot(learner.followers[0])
    make("snp", lam=0.0, noise=0.1, contract="as_released").apply(learner)
    for layer in CONV:
        name = f"{layer}.weight"
        noise = [snapshot(learner.module)[name] - online[name], snapshot(learner.followers[0])[name] - target[name]]
        assert noise[0].abs().max() > 0.05
        torch.testing.assert_close(*noise, rtol=0, atol=1e-6)


def test_a_scope_that_the_released_contract_would_override_is_refused():
    with pytest.raises(ValueError, match="contract=as_released requires scope=conv here, got head"):
        make("fire", scope="head", contract="as_released").attach(dqn())
    make("fire", scope="conv", contract="as_released").attach(dqn())


def test_a_network_without_the_layers_that_the_contract_restores_is_refused_at_attach():
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3))
    learner = replace(learner_for(module), capabilities=(ReleasedCode("dqn"),))
    with pytest.raises(ValueError, match="scope 'linear' names no layer"):
        make("fire", contract="as_released").attach(learner)


# -- as released: SAC ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("hook", HOOKS)
def test_as_released_sac_resets_every_slot_and_the_temperature_and_copies_to_the_target(hook):
    learner = sac()
    alpha = learner.offers(EntropyTemperature).learner
    assert float(alpha.module.log_alpha.detach()) != pytest.approx(-4.6, abs=1e-4)
    make(hook, contract="as_released").apply(learner)
    assert all(is_zero(state) for state in slots(learner).values())
    assert same(snapshot(learner.followers[0]), snapshot(learner.module))
    assert torch.equal(alpha.module.log_alpha, torch.tensor(-4.6))
    assert is_zero(slots(alpha)["log_alpha"])


# -- PPO, and words ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", HOOKS)
def test_as_released_is_refused_where_nothing_was_released(hook):
    with pytest.raises(ValueError, match=f"no released code applies {hook} here; use contract=uniform") as refusal:
        make(hook, contract="as_released").attach(mlp())
    assert "\n" not in str(refusal.value)


def test_an_unknown_contract_is_refused():
    with pytest.raises(ValueError, match="unknown contract 'released'"):
        contract_for("fire", "released", mlp())


@pytest.mark.slow
def test_a_contract_is_described_in_words():
    assert make("fire", scope=("conv", "head")).contract(dqn()) == {
        "weights": "conv + head",
        "optimizer state": "zeroed in place for the tensors that were written",
        "target network": ":= online network",
        "replay, observation statistics, generators": "kept",
    }
    assert make("fire", contract="as_released").contract(dqn()) == {
        "weights": "conv; linear back to step 0",
        "optimizer state": "kept",
        "target network": "rewritten tensors := online network's",
        "replay, observation statistics, generators": "kept",
    }
    assert make("snp", contract="as_released").contract(sac()) == {
        "weights": "all",
        "optimizer state": "fresh (every tensor)",
        "target network": ":= online network",
        "temperature": "back to its start value",
        "replay, observation statistics, generators": "kept",
    }


def test_a_description_leaves_out_parts_that_the_learner_lacks():
    assert make("reset", what="last", count=2, toward="fresh").contract(replace(mlp(), optimizer=None)) == {
        "weights": "last 2 → fresh",
        "replay, observation statistics, generators": "kept",
    }
    assert make("l2_init").contract(mlp()) == {}
