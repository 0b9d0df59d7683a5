"""Shifts of environments with keyword arguments: `--env-kwargs` beside `--shift`."""

import json
from pathlib import Path

import numpy as np
import pytest

from supple.agents.tasks import make_tasks, shift_tasks
from supple.envs import make_env, parse_shifts
from supple.envs.shifts.physics import model_of
from supple.scripts import train


def test_a_lake_whose_map_no_seed_determines_is_refused() -> None:
    with pytest.raises(ValueError, match="FrozenLake8x8-v1 with map_name null draws another map for each copy"):
        make_env("FrozenLake8x8-v1", kwargs={"map_name": None})


def test_values_have_the_sizes_of_the_environment_with_its_arguments() -> None:
    kwargs = {"exclude_current_positions_from_observation": False, "forward_reward_weight": 2.0}
    text = "offset + friction"
    task = shift_tasks(make_tasks(["HalfCheetah-v5"], 2, 2_048), parse_shifts(text), (0,), kwargs)[1]
    assert len(task.shift["offset"]["offset"]) == 18
    env = make_env("HalfCheetah-v5", shifts=text, task=1, kwargs=kwargs)
    before = model_of(make_env("HalfCheetah-v5", kwargs=kwargs)).geom_friction[:, 0]
    env.reset(seed=0)
    np.testing.assert_allclose(model_of(env).geom_friction[:, 0], before * task.shift["friction"]["factor"])


@pytest.mark.slow
def test_copies_of_all_tasks_have_the_arguments(tmp_path: Path) -> None:
    """With `sutton_barto_reward`, CartPole rewards nothing but a fall, by −1: this is what every episode returns."""
    words = "ppo --env cartpole --cycles 2 --steps-per-task 128 --num-envs 2 --rollout-steps 32 --minibatch-size 32"
    more = "--epochs 1 --hidden 8 --eval-episodes 0 --compile off --env-workers 1 --shift"
    arguments = ["offset(scale=3) + flip_actions", "--env-kwargs", '{"sutton_barto_reward": true}']
    train.main([*words.split(), *more.split(), *arguments, "--out", str(tmp_path / "run")])
    episodes = [json.loads(line) for line in (tmp_path / "run/episodes.jsonl").read_text().splitlines()]
    assert {episode["task"] for episode in episodes} == {0, 1}
    assert {episode["return"] for episode in episodes if not episode.get("broken_off")} == {-1.0}
