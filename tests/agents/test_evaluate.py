from itertools import chain, repeat

import numpy as np
import pytest

from supple.agents.evaluate import play
from supple.envs import Vector, make_env
from tests.agents.ppo.test_agent import agent_with

ENV, SEEDS = "inverted_pendulum", (1, 2, 3)


def test_train_mode_returns_even_where_evaluation_fails() -> None:
    agent = agent_with()
    with pytest.raises(ValueError, match="broadcast"), agent.greedy("a") as policy:
        policy(np.zeros((1, 7)))  # as it would with observations of another environment
    assert agent.network.training


def test_the_first_episode_of_each_seed_counts() -> None:
    """The policy pushes hard in the first environment, which soon ends the episode, then less, and waits in the others:
    that environment ends another episode before the last one ends."""
    returns = []
    for seed, action in zip(SEEDS, (3.0, 0.0, 0.0), strict=True):
        env = make_env(ENV)
        env.reset(seed=seed)
        total, done = 0.0, False
        while not done:
            _, reward, terminated, truncated, _ = env.step(np.array([action]))
            total += float(reward)
            done = terminated or truncated
        returns.append([pytest.approx(total)])
        env.close()
    pushes, envs = chain(10 * [3.0], repeat(0.5)), Vector([lambda: make_env(ENV)] * 3)
    found = play(lambda observations: np.array([[next(pushes)], [0.0], [0.0]]), ENV, envs, SEEDS)
    assert found == returns
    assert found[0][0] < 10 < 20 < max(map(max, found))
