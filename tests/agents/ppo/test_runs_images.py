"""Whole runs of PPO on images: what is trained can be used, examined and shown."""

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from supple.agents.trained import Trained
from supple.agents.video import record_videos
from supple.experiments.history.collect import load
from supple.registry.errors import UsageError
from supple.scripts import doctor
from tests.agents.ppo import pictured
from tests.agents.small import lines, train


@pytest.fixture(scope="module", autouse=True)
def _registered() -> None:
    pictured.register()


def trained(folder: Path, env: str, seeds: tuple[int, ...] = (0,), **own: Any) -> Path:
    small: dict[str, Any] = {
        "env": env, "cycles": 1, "steps_per_task": 80, "hidden": (8,), "encoder": "minatar(channels=[4])",
        "eval_episodes": 1, "measure_every": 640,
    }  # fmt: skip
    return train("ppo", folder, seeds, **small | own)


@pytest.mark.parametrize("env", pictured.KINDS)
def test_ppo_learns_what_the_image_shows(env: str, tmp_path: Path) -> None:
    run = trained(
        tmp_path / "run",
        env,
        steps_per_task=1_280,
        num_envs=8,
        minibatch_size=20,
        learning_rate=1e-2,
        gamma=0.5,
        epochs=4,
    )
    rows = lines(run, "metrics")
    assert rows[-1]["eval/return"] > 7  # 2.7 at random
    names = ("srank", "dormant_fraction", "dormant_fraction/body.0.1", "gradient_norm", "policy_churn", "value_churn")
    assert {f"agent/{name}" for name in names} <= set().union(*rows)


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.slow
def test_workers_change_nothing(tmp_path: Path, same: Any) -> None:
    runs = [trained(tmp_path / str(n), "ColumnAndTime-v0", env_workers=n) for n in (0, 2)]
    assert same.last_state(runs[0]) == same.last_state(runs[1])


def test_rollouts_and_batches_keep_the_type_of_pixels(tmp_path: Path) -> None:
    agent: Any = Trained(trained(tmp_path / "run", "Column-v0"))._work.agent
    agent.begin_task("Column-v0")
    assert agent.rollout.observations.dtype == np.uint8
    assert str(agent.recent.last[1].observations.dtype) == "torch.uint8"


@pytest.mark.parametrize("env", ["Column-v0", "ColumnFloat-v0", "ColumnAndTime-v0"])
@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_actions_are_predicted_from_observations_as_the_environment_returns_them(
    env: str, seeds: tuple[int, ...], tmp_path: Path
) -> None:
    run = trained(tmp_path / "run", env, seeds, curvature=len(seeds) == 1)
    agent, world = Trained(run), gym.make(env)
    seen = [world.reset(seed=seed)[0] for seed in range(4)]
    one_by_one = [agent.predict(observation) for observation in seen]
    assert all(action in world.action_space for action in one_by_one)
    batch = seen if isinstance(seen[0], dict) else np.stack(seen)
    assert agent.predict(batch).tolist() == one_by_one
    assert len(agent.evaluate(episodes=2)) == 2
    with pytest.raises(UsageError, match=f"^observations of {env} "):
        agent.predict(np.zeros((6, 6, 5), np.uint8))


def test_images_read_as_vectors_are_predicted_from_as_images(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", "Column-v0", observations="vector", encoder="auto")
    config = json.loads((run / "config.json").read_text())["settings"]
    assert (config["activation"], config["share_value"], config["hidden"]) == ("tanh", False, [8])
    agent: Any = Trained(run)
    assert agent._work.spaces["Column-v0"].picture is None
    assert agent.predict(gym.make("Column-v0").reset(seed=0)[0]) in gym.spaces.Discrete(3)


def test_doctor_examines_and_videos_show_agents_that_see(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", "Column-v0", (0, 1))
    doctor.main([str(run), "--updates", "2", "--seed", "1", "--try", "fire", "--out", str(tmp_path / "page")])
    (stage,) = json.loads((tmp_path / "page/doctor.json").read_text())["stages"]
    assert "body.0.1" in json.dumps(stage)
    problems: list[str] = []
    videos = record_videos(load(run), problems.append)
    assert len(videos) == 1
    assert [line for line in problems if "observations are images" not in line] == []
