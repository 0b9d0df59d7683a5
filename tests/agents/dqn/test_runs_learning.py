"""DQN learns a small game of falling balls from images or vectors, within seconds on a CPU."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from supple.agents.dqn import DQNSettings
from supple.agents.trained import Trained
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec
from tests.agents.small import lines


class Catch(gym.Env):
    """A ball falls through a 6 × 6 grid; a paddle below catches it (1) or not (−1)."""

    observation_space = gym.spaces.Box(0, 255, (6, 6), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.row, self.column, self.paddle = 0, int(self.np_random.integers(6)), 3
        return self.image(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.row += 1
        self.paddle = min(max(self.paddle + int(action) - 1, 0), 5)
        done = self.row == 5
        reward = (1.0 if self.paddle == self.column else -1.0) if done else 0.0
        return self.image(), reward, done, False, {}

    def image(self) -> np.ndarray:
        grid = np.zeros((6, 6), np.uint8)
        grid[self.row, self.column] = grid[5, self.paddle] = 255
        return grid


@pytest.fixture(scope="module", autouse=True)
def _catch() -> Iterator[None]:
    gym.register("Catch-v0", Catch)
    yield
    del gym.registry["Catch-v0"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "own",
    [
        {"observations": "image", "encoder": "minatar(channels=[8])"},
        {"observations": "vector", "normalization": "spectral", "double_q": True},
    ],
)
def test_dqn_learns_to_catch_a_ball(own: dict[str, Any], tmp_path: Path) -> None:
    """A random paddle catches one ball in five: a mean return of −0.6 or so."""
    settings = DQNSettings(
        env="Catch-v0", steps=2_400, num_envs=4, hidden=(64, 32), learning_rate=2e-3, replay_ratio=0.5,
        learning_starts=400, replay_size=3_000, exploration_steps=1_000, target_period=200, eval_every=0,
        eval_episodes=40, checkpoint_every=10_000, measure_every=2_400, device="cpu", **own,
    )  # fmt: skip
    prepare(RunSpec("dqn", settings), tmp_path / "run", print).train(lambda step: None)
    assert np.mean([episode["return"] for episode in lines(tmp_path / "run", "episodes")[:40]]) < -0.3
    assert lines(tmp_path / "run", "metrics")[-1]["eval/return"] > 0.6
    assert Trained(tmp_path / "run").predict(np.stack([np.zeros((6, 6), np.uint8)] * 4)).shape == (4,)
