"""DQN on vectors: acting, targets, a gradient step, and what its settings choose."""

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from supple.agents.dqn import DQNSettings
from supple.agents.dqn.agent import DQN
from supple.agents.dqn.network import ValueNetwork
from supple.agents.dqn.sizes import RowSizes
from supple.agents.offpolicy.replay import Sample
from tests.agents.dqn import test_agent as images
from tests.agents.lives import live, vectors
from tests.agents.states import apply

D, A = 5, 3


def agent_with(**changes: Any) -> DQN:
    values: dict[str, Any] = {
        "env": "a", "steps": 1_000, "num_envs": 2, "hidden": (16, 8), "batch_size": 8, "replay_size": 400,
        "learning_starts": 0, "exploration_steps": 100, "target_period": 1_000, "learning_rate": 1e-3,
        "clip_rewards": False, "device": "cpu", **changes,
    }  # fmt: skip
    return DQN(DQNSettings(**values), {"a": RowSizes(D, A)})


def lived(count: int = 20, **changes: Any) -> DQN:
    agent = agent_with(**changes)
    live(agent, vectors(D, rows=2), count, begin=True)
    return agent


def batch_of(agent: DQN, size: int = 32) -> Sample:
    return agent.experience.memory.sample(size, torch.Generator().manual_seed(1))


def differing(agent: DQN, by: float = 0.3) -> DQN:
    """Return an agent whose target differs from its network."""
    draws = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for p in agent.target.parameters():
            p.add_(by * torch.randn(p.shape, generator=draws))
    return agent


# -- networks ------------------------------------------------------------------------------------------------------


def test_layers_and_units_are_in_forward_order_with_their_roles() -> None:
    network = agent_with(hidden=(16, 8, 4), normalization="layer").network
    assert [tuple(layer.weight.shape) for layer in network.layers()] == [(16, D), (8, 16), (4, 8), (A, 4)]
    assert [layer.role for layer in network.layers()] == ["encoder", "hidden", "hidden", "head"]
    assert network.units() == ("encoder.2", "mlp.2", "mlp.5")


@pytest.mark.parametrize("initialization", ["xavier", "pytorch"])
def test_initial_values_are_those_of_the_name(initialization: str) -> None:
    network = ValueNetwork(64, 32, (128,), "relu", torch.Generator().manual_seed(0), initialization=initialization)  # type: ignore[arg-type]
    for layer in network.layers():
        d_out, d_in = layer.weight.shape
        bound = (6 / (d_in + d_out)) ** 0.5 if initialization == "xavier" else d_in**-0.5
        bias = layer.module.get_parameter("bias").detach()
        assert 0.98 * bound < float(layer.weight.detach().abs().max()) <= bound
        assert bool(bias.any()) == (initialization == "pytorch")
        assert float(bias.abs().max()) <= bound


def test_values_may_be_a_softmax_over_the_actions() -> None:
    values = agent_with(softmax_values=True).network(torch.randn(7, D))
    torch.testing.assert_close(values.sum(1), torch.ones(7))


@pytest.mark.parametrize("normalization", ["none", "layer", "spectral"])
@pytest.mark.parametrize("name", ["fire", "snp", "reset", "redo", "injection"])
def test_interventions_work_with_every_normalization_and_learning_goes_on(name: str, normalization: str) -> None:
    agent = lived(normalization=normalization)
    apply(agent, name)
    agent._learn_from(batch_of(agent))
    assert np.isfinite(agent.numbers()["loss/td"])


# -- targets and updates -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("double_q", [False, True])
def test_the_target_is_that_of_the_equation(double_q: bool) -> None:
    agent = differing(lived(double_q=double_q, gamma=0.9))
    batch = batch_of(agent)
    found = agent.loss.targets(batch)
    differ = False
    with torch.no_grad():
        for i, (frames, reward, terminated) in enumerate(
            zip(batch.frames, batch.rewards, batch.terminated, strict=True)
        ):
            online, target = agent.network(frames[1:])[0], agent.target(frames[1:])[0]
            value = target[online.argmax()] if double_q else target.max()
            differ |= bool(online.argmax() != target.argmax())
            expected = reward if terminated else reward + 0.9 * value
            torch.testing.assert_close(found[i], expected)
    assert differ


def test_double_q_asks_the_network_as_it_is_at_each_gradient_step() -> None:
    """Several batches come in one sample; the choice in the second is that of the network after the first step."""
    together, apart = (differing(lived(double_q=True, batch_size=16, learning_rate=0.05)) for _ in range(2))
    batch = batch_of(together)
    together._learn_from(batch)
    for half in range(2):
        apart._learn_from(Sample(*(tensor[16 * half : 16 * half + 16] for tensor in batch)))
    for ours, theirs in zip(together.network.parameters(), apart.network.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


ADAM = {"betas": (0.99, 0.99), "eps": 1e-5, "weight_decay": 0.1}


@pytest.mark.slow
@pytest.mark.parametrize("largest", [0.1, 1e9])
@pytest.mark.parametrize("shown", ["vectors", "images"])
def test_a_gradient_step_is_that_of_stable_baselines3(
    shown: str, largest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stable_baselines3 import DQN as Peer
    from stable_baselines3.common.type_aliases import ReplayBufferSamples

    own = {"max_grad_norm": 0.0 if largest > 1 else largest, "learning_rate": 1e-3, "adam_betas": ADAM["betas"]}
    own |= {"adam_epsilon": ADAM["eps"], "weight_decay": ADAM["weight_decay"]}
    policy: dict[str, Any] = {"optimizer_kwargs": ADAM}
    if shown == "images":
        agent, box = (
            images.agent_with(**own, encoder="nature", hidden=(512,)),
            spaces.Box(0, 255, (4, 36, 36), np.uint8),
        )
        images.live(agent, images.begun(agent), 20)
    else:
        agent, box = lived(**own), spaces.Box(-1, 1, (D,), np.float32)
        policy["net_arch"] = [16, 8]
    differing(agent, 0.3 if shown == "vectors" else 0.01)
    world: Any = gym.Env()
    world.observation_space, world.action_space = box, spaces.Discrete(A)
    peer = Peer(
        "MlpPolicy" if shown == "vectors" else "CnnPolicy", world, learning_rate=1e-3, max_grad_norm=largest,
        device="cpu", buffer_size=10, policy_kwargs=policy, gamma=0.99,
    )  # fmt: skip
    with torch.no_grad():
        for theirs, ours in ((peer.policy.q_net, agent.network), (peer.policy.q_net_target, agent.target)):
            for p, q in zip(theirs.parameters(), ours.parameters(), strict=True):
                p.copy_(q)
    agent.optimizer.state.clear()
    batch = batch_of(agent, 8)
    states, following = agent.space.split(batch.frames)
    samples = ReplayBufferSamples(
        states, batch.actions[:, None], following, batch.terminated.float()[:, None], batch.rewards[:, None], None
    )
    monkeypatch.setattr(peer.replay_buffer, "sample", lambda *a, **k: samples)
    monkeypatch.setattr(type(peer), "logger", SimpleNamespace(record=lambda *a, **k: None))
    peer.train(1, 8)
    agent._learn_from(batch)
    for theirs, ours in zip(peer.policy.q_net.parameters(), agent.network.parameters(), strict=True):
        torch.testing.assert_close(theirs, ours, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_the_loss_is_hubers_or_the_square() -> None:
    for loss, expected in (("huber", [0.5 * 0.25, 2.0 - 0.5]), ("mse", [0.25, 4.0])):
        agent = lived(loss=loss)
        batch = batch_of(agent, 2)
        with torch.no_grad():
            values = agent.network(batch.frames[:, 0]).gather(1, batch.actions[:, None]).squeeze(1)
        found = agent.loss(batch, values + torch.tensor([0.5, -2.0]), reduction="none")[0]
        torch.testing.assert_close(found.detach(), torch.tensor(expected))


def test_exploration_may_begin_at_any_rate() -> None:
    agent = agent_with(exploration_start=0.0, exploration=0.5, learning_starts=40)
    found = []
    for agent.experience.decisions in (0, 40, 90, 140):
        found.append(agent.epsilon)
    assert found == pytest.approx([0.0, 0.0, 0.25, 0.5])
