"""Whole runs of DQN on vectors: learning from one-hot observations."""

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium import spaces

from supple.agents.dqn import DQNSettings
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec


class Echo(gym.Env):
    """An environment that shows a number and rewards the action with this number, for four steps."""

    observation_space = spaces.Discrete(5)
    action_space = spaces.Discrete(5)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict]:
        super().reset(seed=seed)
        self.left, self.number = 4, int(self.np_random.integers(5))
        return self.number, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict]:
        reward = float(action == self.number)
        self.left, self.number = self.left - 1, int(self.np_random.integers(5))
        return self.number, reward, self.left == 0, False, {}


@pytest.fixture(scope="module", autouse=True)
def _echo() -> None:
    gym.register("Echo-v0", Echo)


@pytest.mark.slow
@pytest.mark.parametrize("normalization", ["none", "layer", "spectral"])
def test_dqn_learns_from_one_hot_observations(normalization: str, tmp_path: Path) -> None:
    settings = DQNSettings(
        env="Echo-v0", steps=1_000, num_envs=4, widths=(32, 32), learning_rate=5e-3, learning_starts=100,
        replay_size=2_000, exploration_steps=400, target_period=100, gamma=0.5, double_q=True, replay_ratio=0.5,
        normalization=normalization, eval_every=0, eval_episodes=20, checkpoint_every=10_000, measure_every=2_000,
        device="cpu",
    )  # fmt: skip
    prepare(RunSpec("dqn", settings), tmp_path / "run", print).train(lambda step: None)
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["eval/return"] > 3.5  # 0.8 at random
