"""Whole runs of DQN on vectors: learning from one-hot observations."""

from pathlib import Path

import gymnasium as gym
import pytest

from supple.agents.dqn import DQNSettings
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec
from tests.agents.ppo.test_runs import Echo
from tests.agents.small import lines


@pytest.fixture(scope="module", autouse=True)
def _echo() -> None:
    gym.register("Echo-v0", Echo)


@pytest.mark.slow
@pytest.mark.parametrize("normalization", ["none", "layer", "spectral"])
def test_dqn_learns_from_one_hot_observations(normalization: str, tmp_path: Path) -> None:
    settings = DQNSettings(
        env="Echo-v0", steps=1_000, num_envs=4, hidden=(32, 32), learning_rate=5e-3, learning_starts=100,
        replay_size=2_000, exploration_steps=400, target_period=100, gamma=0.5, double_q=True, replay_ratio=0.5,
        normalization=normalization, eval_every=0, eval_episodes=20, checkpoint_every=10_000, measure_every=2_000,
        device="cpu",
    )  # fmt: skip
    prepare(RunSpec("dqn", settings), tmp_path / "run", print).train(lambda step: None)
    assert lines(tmp_path / "run", "metrics")[-1]["eval/return"] > 3.5  # 1 at random
