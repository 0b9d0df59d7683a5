import numpy as np
import pytest
import torch

from supple.agents.evaluate import evaluate
from supple.agents.ppo import PPO, PPOSettings
from supple.envs import make_env

ENV = "inverted_pendulum"


@pytest.fixture
def agent() -> PPO:
    settings = PPOSettings(
        env=ENV, steps=64, num_envs=2, hidden=(8,), adapter=0, compile="off", activation="rand_smooth_leaky"
    )
    agent = PPO(settings, {ENV: (4, 1)})
    agent.begin_task(ENV)
    agent.begin_episodes(np.random.default_rng(0).normal(0, 0.1, size=(2, 4)))
    return agent


def test_evaluation_is_deterministic(agent: PPO) -> None:
    returns = [evaluate(agent, ENV, (1, 2, 3), 1.0, True) for _ in range(2)]
    assert returns[0] == returns[1]
    assert evaluate(agent, ENV, (4, 5, 6), 1.0, True) != returns[0]


def test_evaluation_leaves_training_as_it_was(agent: PPO) -> None:
    state = agent.state_dict()
    parameters = {name: p.clone() for name, p in agent.network.state_dict().items()}
    current, global_state = agent.current.copy(), torch.get_rng_state()
    evaluate(agent, ENV, (1, 2), 1.0, True)
    assert agent.network.training
    assert all(module.training for module in agent.network.modules())
    after = agent.state_dict()
    assert all(torch.equal(parameters[name], p) for name, p in agent.network.state_dict().items())
    assert all(torch.equal(g, after["generators"][name]) for name, g in state["generators"].items())
    for what in ("observations", "rewards"):
        for name, value in state[what][ENV].items():
            np.testing.assert_array_equal(value, after[what][ENV][name])
    np.testing.assert_array_equal(agent.current, current)
    assert torch.equal(torch.get_rng_state(), global_state)


def test_train_mode_returns_even_where_evaluation_fails(agent: PPO) -> None:
    with pytest.raises(ValueError, match="broadcast"), agent.greedy(ENV) as policy:
        policy(np.zeros((1, 7)))  # as it would with observations of another environment
    assert agent.network.training


def test_the_score_is_the_mean_of_one_episode_for_each_seed(agent: PPO) -> None:
    returns = []
    for seed in (1, 2, 3):
        env = make_env(ENV)
        observation, _ = env.reset(seed=seed)
        total, done = 0.0, False
        with agent.greedy(ENV) as policy:
            while not done:
                observation, reward, terminated, truncated, _ = env.step(policy(observation[None])[0])
                total += float(reward)
                done = terminated or truncated
        returns.append(total)
        env.close()
    assert evaluate(agent, ENV, (1, 2, 3), 1.0, True) == pytest.approx(np.mean(returns))
