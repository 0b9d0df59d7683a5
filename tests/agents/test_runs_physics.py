"""`--physics`: a run is the same to the last byte however the copies of its environments are stepped."""

import json
from pathlib import Path
from typing import Any

import pytest

from supple.agents.dqn import DQNSettings
from supple.agents.ppo import PPOSettings
from supple.agents.sac import SACSettings
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec
from supple.envs.compiled import is_exact


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sequence", "shift"),
    [
        ("halfcheetah,hopper", "friction(low=0.5,high=2,over=400) + offset(over=300)"),
        ("cartpole,ninerooms", "negate_reward(over=400) + permute"),
    ],
)
def test_runs_are_the_same_together_and_one_by_one(tmp_path: Path, same: Any, sequence: str, shift: str) -> None:
    for physics in ("single", "auto"):
        settings = PPOSettings(
            sequence=sequence, steps_per_task=512, num_envs=8, rollout_steps=32, epochs=1, hidden=(8,),
            adapter=8, checkpoint_every=256, measure_every=512, eval_episodes=5, max_episode_steps=100,
            shift=shift, restart_episodes=True, physics=physics,
        )  # fmt: skip
        prepare(RunSpec("ppo", settings), tmp_path / physics, lambda line: None).train(lambda step: None)
    same.assert_runs(tmp_path / "auto", tmp_path / "single")
    config = json.loads((tmp_path / "auto/config.json").read_text())
    assert config["settings"]["physics"] == "batched"


@pytest.mark.parametrize(
    ("settings", "physics", "note"),
    [
        (PPOSettings(env="swimmer", steps=8), "batched", False),
        (PPOSettings(env="swimmer", steps=8, physics="single"), "single", False),
        (PPOSettings(env="cartpole", steps=8), "batched", False),
        (PPOSettings(env="cartpole", steps=8, num_envs=1), "batched" if is_exact("CartPole-v1") else "single", False),
        (PPOSettings(env="cartpole", steps=8, shift="delay", physics="batched"), "single", True),
        (PPOSettings(env="swimmer", steps=8, shift="delay"), "single", False),
        (SACSettings(env="swimmer", steps=8, action_repeat=4, num_envs=2), "single", False),
        (DQNSettings(env="acrobot", steps=800, num_envs=8), "batched", False),
    ],
)
def test_the_settings_are_resolved_into_what_is_done(settings: Any, physics: str, note: bool) -> None:
    assert bool(settings.resolve()) == note
    assert settings.physics == physics
    assert not settings.resolve()
    assert settings.physics == physics
