"""What `auto` means for observations, and when a line says so."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from supple.agents.dqn import DQNSettings
from supple.agents.ppo import PPOSettings
from supple.experiments.comparisons.comparison import Comparison
from supple.experiments.comparisons.folder import create
from supple.experiments.comparisons.grid import make_points
from supple.registry.errors import UsageError

CAR = {"env": "CartPole-v1", "steps": 800}


class Seen(gym.Env):
    """An environment that shows images."""

    observation_space = spaces.Box(0, 255, (10, 10, 3), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.full((10, 10, 3), 255, np.uint8), {}


@pytest.fixture(scope="module")
def seen() -> str:
    gym.register("SeenHere-v0", Seen, max_episode_steps=5)
    return "SeenHere-v0"


def test_how_observations_are_read_is_recorded_and_said_once(seen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supple.agents.ppo.settings.compile_problem", lambda: "no compiler")
    settings = PPOSettings(env=seen, steps=800, num_envs=1, rollout_steps=64, compile="on")
    said = settings.resolve() or ""
    assert "images of 10 × 10 pixels and 3 channels (channels last), scaled from 0…255 to 0…1" in said
    assert said.endswith("; no compiler")
    assert settings.observations == "image"
    assert "images" not in (settings.resolve() or "")  # as of a resumed run


def test_a_refused_comparison_does_not_say_how_images_are_read(seen: str, tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    said: list[str] = []
    settings = DQNSettings(env=seen, steps=80, hidden=(4,), replay_size=40, learning_starts=40, encoder="minatar")
    with pytest.raises(UsageError, match="holds"):
        create(tmp_path, Comparison("dqn", settings, make_points(("none",), {}), (0,), 0.0), 1, said.append)
    assert said == []


def test_vectors_need_no_line() -> None:
    settings = PPOSettings(**CAR)
    assert settings.resolve() is None
    assert settings.observations == "vector"
