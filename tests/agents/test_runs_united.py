"""Agents on sequences of games with different channels and actions: trained, resumed, evaluated, used."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from supple.agents.dqn import DQNSettings
from supple.agents.ppo import PPOSettings
from supple.agents.trained import Trained
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec
from supple.envs import United
from tests.envs.test_padding import tiles

pytestmark = pytest.mark.slow

COMMON: dict[str, Any] = {
    "sequence": "Few-v0,Many-v0", "steps_per_task": 64, "num_envs": 2, "max_episode_steps": 8, "eval_episodes": 1,
    "encoder": "minatar", "compile": "off", "device": "cpu",
}  # fmt: skip
KINDS = {
    "dqn": lambda: DQNSettings(
        learning_starts=16, replay_size=64, batch_size=4, replay_ratio=0.1, hidden=(8,), exploration=0.0, **COMMON
    ),
    "ppo": lambda: PPOSettings(rollout_steps=8, minibatch_size=16, epochs=1, hidden=(8,), **COMMON),
}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, kwargs in {"Few-v0": {"actions": 2}, "Many-v0": {"shape": (5, 5, 4), "actions": 9}}.items():
        monkeypatch.setitem(gym.registry, name, gym.envs.registration.EnvSpec(name, tiles, kwargs=kwargs))


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_learns_games_of_different_channels_and_actions_in_turn(kind: str, tmp_path: Path) -> None:
    settings = KINDS[kind]()
    settings.resolve()
    run = prepare(RunSpec(kind, settings), tmp_path / "run", lambda line: None)
    run.train(lambda step: None)
    agent = Trained(tmp_path / "run")
    assert agent._work.united == United(4, 9, "image")
    for env, channels, actions in (("Few-v0", 2, 2), ("Many-v0", 4, 9)):
        seen = np.random.default_rng(0).integers(2, size=(60, 5, 5, channels)).astype(np.uint8)
        assert {*agent.predict(seen, env).tolist()} <= {*range(actions)}
        assert np.shape(agent.predict(seen[0], env)) == ()
        assert len(agent.evaluate(env, episodes=2)) == 2
