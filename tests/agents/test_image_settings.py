"""What `auto` means for observations, and when a line says so."""

from collections.abc import Iterator
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


@pytest.fixture
def seen() -> Iterator[str]:
    gym.register("SeenHere-v0", Seen, max_episode_steps=5)
    yield "SeenHere-v0"
    del gym.registry["SeenHere-v0"]


def test_how_observations_are_read_is_recorded_and_said_once(seen: str) -> None:
    settings = PPOSettings(env=seen, steps=800, num_envs=1, rollout_steps=64)
    said = settings.resolve() or ""
    assert "images of 10 × 10 pixels and 3 channels (channels last), scaled from 0…255 to 0…1" in said
    assert settings.observations == "image"
    assert "images" not in (settings.resolve() or "")  # as of a resumed run


def test_a_note_on_compilation_does_not_replace_the_line_on_images(seen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supple.agents.ppo.settings.compile_problem", lambda: "no compiler")
    said = PPOSettings(env=seen, steps=800, num_envs=1, rollout_steps=64, compile="on").resolve() or ""
    assert said.endswith("; no compiler")
    assert "images of 10 × 10" in said


@pytest.mark.parametrize(
    ("arm", "vary", "refusal"),
    [
        ("none", {"gamma": (3.0,)}, "--gamma must lie"),
        ("later@task", {}, "unknown intervention"),
        ("none", {}, "holds"),
    ],
)
def test_a_refused_comparison_does_not_say_how_images_are_read(
    arm: str, vary: dict, refusal: str, seen: str, tmp_path: Path
) -> None:
    (tmp_path / "other").touch()
    said: list[str] = []
    settings = DQNSettings(env=seen, steps=80, hidden=(4,), replay_size=40, learning_starts=40, encoder="minatar")
    with pytest.raises(UsageError, match=refusal):
        create(tmp_path, Comparison("dqn", settings, make_points((arm,), vary), (0,), 0.0), 1, said.append)
    assert said == []


def test_vectors_need_no_line() -> None:
    settings = PPOSettings(**CAR)
    assert settings.resolve() is None
    assert settings.observations == "vector"
