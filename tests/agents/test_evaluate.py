from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, repeat
from typing import Any

import numpy as np
import pytest

from supple.agents.evaluate import Member, evaluate
from supple.agents.ppo import PPOSettings
from supple.agents.ppo.agent import PPO
from supple.agents.ppo.network import PolicySpace
from supple.agents.ppo.policies import Gaussian
from supple.envs import Vector, make_env

ENV = "inverted_pendulum"


def environments(seeds: tuple[int, ...]) -> Vector:
    return Vector([lambda: make_env(ENV)] * len(seeds))


def test_train_mode_returns_even_where_evaluation_fails() -> None:
    agent = PPO(PPOSettings(env=ENV, steps=64, hidden=(8,), compile="off"), {ENV: PolicySpace(4, Gaussian(1))})
    with pytest.raises(ValueError, match="broadcast"), agent.greedy(ENV) as policy:
        policy(np.zeros((1, 7)))  # as it would with observations of another environment
    assert agent.network.training


class Pusher:
    """An agent that pushes hard in the first environment, which soon ends the episode, then less, and waits in the
    others."""

    def greedy(self, env: str) -> AbstractContextManager[Callable[[np.ndarray], np.ndarray]]:
        pushes = chain(10 * [3.0], repeat(0.5))
        return nullcontext(lambda observations: np.array([[next(pushes)], [0.0], [0.0]]))


def test_the_first_episode_of_each_seed_counts() -> None:
    returns = []
    for seed, action in ((1, 3.0), (2, 0.0), (3, 0.0)):
        env = make_env(ENV)
        env.reset(seed=seed)
        total, done = 0.0, False
        while not done:
            _, reward, terminated, truncated, _ = env.step(np.array([action]))
            total += float(reward)
            done = terminated or truncated
        returns.append(total)
        env.close()
    assert returns[0] < 10 < 20 < max(returns)  # so its environment ends another episode before the last one ends
    agent: Any = Pusher()
    assert evaluate(Member(agent, 0, 1), ENV, environments((1, 2, 3)), (1, 2, 3)) == pytest.approx(returns)
