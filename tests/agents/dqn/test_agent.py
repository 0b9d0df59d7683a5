"""DQN's act, remember and update, on observations made here."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from supple.agents.dqn import DQNSettings
from supple.agents.dqn.agent import DQN
from supple.agents.dqn.network import ValueNetwork
from supple.agents.dqn.sizes import Pixels
from supple.envs import Picture, StepResult
from tests.agents.lives import live
from tests.agents.states import apply

PIXELS = Pixels(stack=4, height=36, width=36, actions=3)


def agent_with(**changes: Any) -> DQN:
    values: dict[str, Any] = {
        "env": "a", "steps": 1_000, "num_envs": 2, "hidden": (16,), "batch_size": 8, "replay_size": 400,
        "encoder": "nature(channels=[8,8,8])",
        "learning_starts": 0, "exploration_steps": 100, "target_period": 1_000, "device": "cpu", **changes,
    }  # fmt: skip
    return DQN(DQNSettings(**values), {"a": PIXELS})


def world(num_envs: int = 2, seed: int = 0, ends: float = 0.1) -> Iterator[StepResult]:
    """Yield steps with random images and rewards, in which episodes are terminated and truncated."""
    rng = np.random.default_rng(seed)
    stack = np.zeros((num_envs, 4, 36, 36), np.uint8)
    while True:
        final = np.concatenate([stack[:, 1:], rng.integers(0, 256, (num_envs, 1, 36, 36), np.uint8)], axis=1)
        terminated, truncated = rng.random(num_envs) < ends, rng.random(num_envs) < ends
        stack = final.copy()
        stack[terminated | truncated] = 0
        stack[terminated | truncated, -1] = rng.integers(0, 256, (36, 36), np.uint8)
        yield StepResult(stack.copy(), rng.normal(size=num_envs) * 5, terminated, truncated, final, [])


def begun(agent: DQN, seed: int = 0) -> Iterator[StepResult]:
    steps = world(agent.settings.num_envs, seed)
    agent.begin_episodes(next(steps).obs)
    return steps


def parameters(agent: DQN) -> list[torch.Tensor]:
    return [p.detach().clone() for p in agent.network.parameters()]


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


# -- acting ------------------------------------------------------------------------------------------------


def test_epsilon_stays_1_until_learning_starts_and_then_falls_linearly() -> None:
    agent = agent_with(learning_starts=40, exploration_steps=100, exploration=0.2)
    found = []
    for agent.experience.decisions in (0, 40, 65, 90, 140, 10_000):
        found.append(agent.epsilon)
    assert found == pytest.approx([1.0, 1.0, 0.8, 0.6, 0.2, 0.2])


@pytest.mark.slow
def test_every_environment_draws_for_itself_whether_to_explore() -> None:
    """One draw for all environments, as in FIRE's released code, would make all of them explore or none."""
    agent = agent_with(num_envs=8)
    steps = begun(agent)
    agent.current = next(steps).obs
    greedy = agent.network(torch.from_numpy(agent.current)).argmax(1).numpy()
    agent.experience.decisions = 50  # ε = 0.505
    agreeing = np.array([(agent.act() == greedy).mean() for _ in range(200)])
    chance = 1 - agent.epsilon * 2 / 3
    assert agreeing.mean() == pytest.approx(chance, abs=0.05)
    assert agreeing.std() == pytest.approx(np.sqrt(chance * (1 - chance) / 8), rel=0.25)


@pytest.mark.slow
def test_evaluation_acts_nearly_greedily_and_leaves_no_trace() -> None:
    agent = agent_with(activation="rand_smooth_leaky", eval_epsilon=0.0)
    steps = begun(agent)
    live(agent, steps, 10)
    before = agent.exploration.get_state(), torch.get_rng_state()
    observations = next(steps).obs
    with agent.greedy("a") as policy:
        actions = policy(observations)
        np.testing.assert_array_equal(actions, agent.network(torch.from_numpy(observations)).argmax(1))
    assert agent.network.training
    assert torch.equal(before[0], agent.exploration.get_state())
    assert torch.equal(before[1], torch.get_rng_state())


# -- learning ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_in_bfloat16_weights_stay_float32_and_steps_are_nearly_those_of_float32() -> None:
    ends, agents = [], [agent_with(precision=precision) for precision in ("float32", "bfloat16")]
    for agent in agents:
        start = parameters(agent)
        torch.manual_seed(0)
        live(agent, begun(agent), 40)
        assert {p.dtype for p in agent.network.parameters()} == {torch.float32}
        ends.append(
            torch.cat([(after - before).flatten() for after, before in zip(parameters(agent), start, strict=True)])
        )
    assert not torch.equal(*ends)
    assert torch.cosine_similarity(*ends, dim=0) > 0.9
    sample = agents[1].experience.require_recent()
    wanted = agents[1].loss.targets(sample)
    assert wanted.dtype == torch.float32
    exact = (
        sample.rewards
        + agents[1].settings.gamma
        * agents[1].target(agents[1].space.split(sample.frames)[1]).amax(1)
        * ~sample.terminated
    )
    torch.testing.assert_close(wanted, exact, rtol=0.02, atol=0.02)


@pytest.mark.slow
def test_target_network_is_copied_whole_every_period_and_stays_between() -> None:
    agent = agent_with(target_period=40)
    steps = begun(agent)
    copies = []
    for _ in range(50):
        before = [p.clone() for p in agent.target.parameters()]
        live(agent, steps, 1)
        after = list(agent.target.parameters())
        if not same(before, after):
            assert same(after, parameters(agent))
            copies.append(agent.experience.decisions)
    assert copies == [40, 80]


def test_termination_cuts_the_target_and_truncation_bootstraps_from_the_true_last_observation() -> None:
    agent = agent_with(replay_size=64, gamma=0.5, clip_rewards=False)
    steps = begun(agent)
    expected: dict[bytes, float] = {}
    for _ in range(30):
        state = agent.current.copy()
        agent.act()
        result = next(steps)
        agent.remember(result)
        with torch.no_grad():
            values = agent.target(torch.from_numpy(result.final_obs)).amax(1).numpy()
        for e in range(2):
            bootstrap = 0.0 if result.terminated[e] else 0.5 * values[e]
            expected[state[e].tobytes()] = float(np.float32(result.reward[e])) + bootstrap
    batch = agent.experience.memory.sample(200, torch.Generator().manual_seed(0))
    found = agent.loss.targets(batch)
    wanted = [expected[s.numpy().tobytes()] for s in batch.frames[:, :-1]]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_rewards_are_clipped_to_their_sign_unless_asked_otherwise() -> None:
    for clip in (True, False):
        agent = agent_with(clip_rewards=clip, learning_starts=10_000)
        live(agent, begun(agent), 20)
        rewards = agent.experience.memory.sample(100, torch.Generator().manual_seed(0)).rewards
        assert (set(rewards.tolist()) <= {-1.0, 0.0, 1.0}) == clip


# -- interventions and checkpoints -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fire", "snp", "reset", "reset(what=head)", "redo"])
@pytest.mark.parametrize("contract", ["uniform", "as_released"])
def test_interventions_write_in_place(name: str, contract: str) -> None:
    agent = agent_with()
    steps = begun(agent)
    live(agent, steps, 20)
    memory = [p.data_ptr() for p in (*agent.network.parameters(), *agent.target.parameters())]
    slots = [v.data_ptr() for s in agent.optimizer.state.values() for v in s.values()]
    apply(agent, name, contract)
    assert memory == [p.data_ptr() for p in (*agent.network.parameters(), *agent.target.parameters())]
    assert slots == [v.data_ptr() for s in agent.optimizer.state.values() for v in s.values()]
    live(agent, steps, 5)
    agent.numbers()


@pytest.mark.slow
def test_injection_leaves_the_values_of_actions_as_they_were_and_learning_goes_on() -> None:
    agent = agent_with()
    steps = begun(agent)
    live(agent, steps, 20)
    observations = torch.from_numpy(next(steps).obs)
    before = agent.network(observations).detach()
    apply(agent, "injection")
    torch.testing.assert_close(agent.network(observations), before, rtol=0, atol=1e-6)
    live(agent, steps, 20)
    assert not torch.allclose(agent.network(observations), before, atol=1e-4)


def test_environments_of_one_stream_must_show_and_take_the_same() -> None:
    with pytest.raises(ValueError, match=r"one network for all tasks.*a has .*b has"):
        DQN(DQNSettings(env="a", steps=10), {"a": PIXELS, "b": PIXELS._replace(actions=4)})


def test_frames_too_small_for_the_network_are_refused() -> None:
    with pytest.raises(ValueError, match="36 × 36 or more"):
        DQN(DQNSettings(env="a", steps=10, encoder="nature", device="cpu"), {"a": PIXELS._replace(height=35)})


def test_the_network_is_the_nature_cnn() -> None:
    network = ValueNetwork(4 * 84 * 84, 9, None, "relu", torch.Generator().manual_seed(0), picture=Picture(4, 84, 84))
    assert [tuple(layer.weight.shape) for layer in network.layers()] == [
        (32, 4, 8, 8), (64, 32, 4, 4), (64, 64, 3, 3), (512, 3136), (9, 512),
    ]  # fmt: skip
    assert [layer.role for layer in network.layers()] == ["encoder"] * 3 + ["hidden", "head"]
    for layer in network.layers():
        taps = layer.weight[0, 0].numel()
        bound = (6 / ((layer.weight.shape[0] + layer.weight.shape[1]) * taps)) ** 0.5
        assert 0.9 * bound < float(layer.weight.detach().abs().max()) <= bound
        assert not layer.module.get_parameter("bias").any()
    frames = torch.randint(0, 256, (2, 4, 84, 84), dtype=torch.uint8)
    x = frames.float() / 255
    for layer, stride in zip(network.layers(), (4, 2, 1), strict=False):
        x = F.conv2d(x, layer.weight.contiguous(), layer.module.get_parameter("bias"), stride).relu()
    for layer in network.layers()[3:]:
        x = F.linear(x.flatten(1) if x.ndim == 4 else x.relu(), layer.weight, layer.module.get_parameter("bias"))
    torch.testing.assert_close(network(frames), x)
