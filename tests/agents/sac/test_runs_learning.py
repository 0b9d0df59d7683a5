"""SAC with SimBa networks learns to swing a pendulum up, within seconds on a CPU."""

import json
from pathlib import Path

import numpy as np
import pytest

from supple.agents.sac import SACSettings
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec


@pytest.mark.slow
def test_sac_swings_up_the_pendulum(tmp_path: Path) -> None:
    """Random torques return −1200 or so. Above −500, the pendulum is mostly within a right angle of its goal: each of
    200 steps costs at least the square of the angle."""
    settings = SACSettings(
        env="Pendulum-v1", steps=4_000, action_repeat=4, replay_ratio=2.0, batch_size=64, replay_size=8_000,
        learning_starts=400, actor_width=32, critic_width=32, critic_blocks=1, learning_rate=3e-3, temperature=0.1,
        eval_episodes=20, measure_every=4_000, checkpoint_every=4_000, device="cpu", compile="off",
    )  # fmt: skip
    prepare(RunSpec("sac", settings), tmp_path / "run", print).train(lambda step: None)
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    episodes = [json.loads(line) for line in (tmp_path / "run/episodes.jsonl").read_text().splitlines()]
    assert np.mean([episode["return"] for episode in episodes[:3]]) < -700
    assert rows[-1]["eval/return"] > -500
