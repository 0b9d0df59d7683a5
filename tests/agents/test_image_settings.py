"""What `auto` means for observations, and when a line says so."""

from pathlib import Path

import pytest

from supple.agents.dqn import DQNSettings
from supple.agents.ppo import PPOSettings
from supple.experiments.comparisons.comparison import Comparison
from supple.experiments.comparisons.folder import create
from supple.experiments.comparisons.grid import make_points
from supple.registry.errors import UsageError
from tests.agents.ppo import pictured


@pytest.fixture(scope="module", autouse=True)
def _registered() -> None:
    pictured.register()


def test_how_observations_are_read_is_recorded_and_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supple.agents.ppo.settings.compile_problem", lambda: "no compiler")
    settings = PPOSettings(env="Column-v0", steps=800, num_envs=1, rollout_steps=64, compile="on")
    said = settings.resolve() or ""
    assert "images of 6 × 6 pixels and 2 channels (channels last), scaled from 0…255 to 0…1" in said
    assert said.endswith("; no compiler")
    assert settings.observations == "image"
    assert "images" not in (settings.resolve() or "")  # as of a resumed run
    vectors = PPOSettings(env="CartPole-v1", steps=800)
    assert vectors.resolve() is None
    assert vectors.observations == "vector"


def test_a_refused_comparison_does_not_say_how_images_are_read(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    said: list[str] = []
    settings = DQNSettings(env="Column-v0", steps=80, hidden=(4,), replay_size=40, learning_starts=40)
    with pytest.raises(UsageError, match="holds"):
        create(tmp_path, Comparison("dqn", settings, make_points(("none",), {}), (0,), 0.0), 1, said.append)
    assert said == []


def test_a_network_of_the_users_is_neither_stacked_nor_compiled_unless_that_is_asked_for() -> None:
    settings = DQNSettings(env="CartPole-v1", steps=900_000, encoder="net.py:make", device="cpu")
    assert settings.group((0, 1, 2)) == ((0,), (1,), (2,))
    with pytest.raises(UsageError, match=r"--stack 3: .*network of your own, which has no stack"):
        DQNSettings(env="CartPole-v1", steps=900_000, encoder="net.py:make", stack=3).group((0, 1, 2))
    settings.resolve()
    assert (settings.compile, settings.observations) == ("off", "vector")
