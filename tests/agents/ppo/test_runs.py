"""Whole runs of PPO where actions are discrete: it learns from one-hot observations."""

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from supple.agents.ppo import PPOSettings
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec

pytestmark = pytest.mark.slow


class Echo(gym.Env):
    """An environment that shows a number and rewards the action that says it, for four steps."""

    observation_space = spaces.Discrete(4)

    def __init__(self, actions: gym.Space | None = None) -> None:
        self.action_space = spaces.Discrete(4) if actions is None else actions

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict]:
        super().reset(seed=seed)
        self.left, self.number = 4, int(self.np_random.integers(4))
        return self.number, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict]:
        assert self.action_space.contains(action), action
        answer = action
        if isinstance(self.action_space, spaces.MultiBinary):
            answer = 2 * action[0] + action[1]
        if isinstance(self.action_space, spaces.Box):
            answer = np.round(1.5 * action[0] + 1.5)
        reward = float(answer == self.number)
        self.left, self.number = self.left - 1, int(self.np_random.integers(4))
        return self.number, reward, self.left == 0, False, {}


def register() -> None:
    gym.register("Echo-v0", Echo)
    gym.register("EchoBits-v0", Echo, kwargs={"actions": spaces.MultiBinary(2)})
    gym.register("EchoBox-v0", Echo, kwargs={"actions": spaces.Box(-1, 1, (1,), np.float32)})


@pytest.fixture(scope="module", autouse=True)
def _registered() -> None:
    register()


@pytest.mark.parametrize("env", ["Echo-v0", "EchoBits-v0", "EchoBox-v0"])
def test_ppo_learns_which_action_each_observation_asks_for(env: str, tmp_path: Path) -> None:
    settings = PPOSettings(
        env=env, steps=3_200, num_envs=8, rollout_steps=20, minibatch_size=40, epochs=4, learning_rate=1e-2,
        hidden=(16,), adapter=0, gamma=0.5, eval_every=10_000, eval_episodes=20,
        measure_every=10_000, checkpoint_every=10_000, compile="off",
    )  # fmt: skip
    prepare(RunSpec("ppo", settings), tmp_path / "run", print).train(lambda step: None)
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["eval/return"] > 3.5  # 1 at random
