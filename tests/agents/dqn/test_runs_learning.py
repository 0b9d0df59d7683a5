"""DQN learns a small game of falling balls from its images, within seconds on a CPU."""

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from supple.agents.dqn import DQNSettings
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec


class Catch(gym.Env):
    """A ball falls through a 9 × 9 grid, drawn with 4 pixels a cell; a paddle below catches it (1) or not (−1)."""

    observation_space = gym.spaces.Box(0, 255, (36, 36), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.row, self.column, self.paddle = 0, int(self.np_random.integers(9)), 4
        return self.image(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.row += 1
        self.paddle = min(max(self.paddle + int(action) - 1, 0), 8)
        done = self.row == 8
        reward = (1.0 if self.paddle == self.column else -1.0) if done else 0.0
        return self.image(), reward, done, False, {}

    def image(self) -> np.ndarray:
        grid = np.zeros((9, 9), np.uint8)
        grid[self.row, self.column] = 255
        grid[8, self.paddle] = 255
        return grid.repeat(4, 0).repeat(4, 1)


@pytest.fixture(scope="module", autouse=True)
def _catch() -> None:
    gym.register("Catch-v0", Catch)


@pytest.mark.slow
def test_dqn_learns_to_catch_a_ball(tmp_path: Path) -> None:
    """A random paddle catches one ball in seven: a mean return of −0.7 or so."""
    settings = DQNSettings(
        env="Catch-v0", observations="image", steps=3_000, num_envs=4, hidden=(64,), learning_rate=2e-3,
        encoder="nature(channels=[8,16,16])", learning_starts=400, replay_size=3_000, exploration_steps=1_000,
        target_period=200, eval_every=0, eval_episodes=40, checkpoint_every=10_000, measure_every=3_000, device="cpu",
    )  # fmt: skip
    prepare(RunSpec("dqn", settings), tmp_path / "run", print).train(lambda step: None)
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    early = [json.loads(line) for line in (tmp_path / "run/episodes.jsonl").read_text().splitlines()][:40]
    assert np.mean([episode["return"] for episode in early]) < -0.4
    assert rows[-1]["eval/return"] > 0.6
