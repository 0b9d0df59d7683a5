"""SAC with SimBa networks learns to swing a pendulum up, within half a minute on a CPU."""

import json
from pathlib import Path

import numpy as np
import pytest

from supple.agents.sac import SACSettings
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec


@pytest.mark.slow
def test_sac_swings_up_the_pendulum(tmp_path: Path) -> None:
    """Random torques return −1200 or so, and nothing above −200 is reached without swinging up and staying there."""
    settings = SACSettings(
        env="Pendulum-v1", steps=6_000, action_repeat=1, replay_ratio=1.0, batch_size=128, replay_size=8_000,
        learning_starts=500, actor_width=32, critic_width=32, critic_blocks=1, learning_rate=1e-3, temperature=0.1,
        eval_episodes=20, measure_every=6_000, checkpoint_every=6_000, device="cpu", compile="off",
    )  # fmt: skip
    prepare(RunSpec("sac", settings), tmp_path / "run", print).train(lambda step: None)
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    episodes = [json.loads(line) for line in (tmp_path / "run/episodes.jsonl").read_text().splitlines()]
    assert np.mean([episode["return"] for episode in episodes[:3]]) < -700
    assert rows[-1]["eval/return"] > -200
