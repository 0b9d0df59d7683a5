"""Shifts of environments with keyword arguments: `--env-kwargs` beside `--shift`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supple.agents.tasks import EnvTask, make_tasks, shift_tasks
from supple.envs import make_env, parse_shifts
from supple.envs.shifts.physics import model_of
from supple.scripts import train


def tasks(env: str, kwargs: dict[str, Any], shift: str) -> tuple[EnvTask, ...]:
    return shift_tasks(make_tasks([env], 2, 2_048), parse_shifts(shift), (0,), kwargs)


def test_a_large_lake_is_mirrored_as_large() -> None:
    plain, mirrored = (
        make_env("FrozenLake-v1", shifts="mirror_map", task=task, kwargs={"map_name": "8x8", "is_slippery": False})
        for task in (0, 1)
    )
    for env in (plain, mirrored):
        env.reset(seed=0)
    down, right = 1, 2
    assert [plain.step(action)[0] for action in (down, right)] == [8, 9]
    assert [mirrored.step(action)[0] for action in (down, right)] == [8, 9]  # as the field (1, 0), then (1, 1)
    assert [mirrored.step(action)[0] for action in (down, down)] == [17, 25]
    assert mirrored.unwrapped.s == 11  # type: ignore[attr-defined]  # (1, 3): down was right


@pytest.mark.parametrize("name", ["FrozenLake-v1", "FrozenLake8x8-v1"])
def test_a_lake_whose_map_no_seed_determines_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} with map_name null draws another map for each copy"):
        tasks(name, {"map_name": None}, "mirror_map")


def test_running_backwards_costs_what_running_forwards_earns_with_this_weight() -> None:
    plain, reversed_ = (
        make_env("HalfCheetah-v5", shifts="direction", task=task, kwargs={"forward_reward_weight": 3.0})
        for task in (0, 1)
    )
    for env in (plain, reversed_):
        env.reset(seed=0)
        env.action_space.seed(0)
    action = plain.action_space.sample()
    _, forwards, _, _, info = plain.step(action)
    _, backwards, *_ = reversed_.step(action)
    assert info["reward_forward"] == pytest.approx(3.0 * info["x_velocity"])
    assert backwards == pytest.approx(float(forwards) - 2.0 * info["reward_forward"])


def test_values_have_the_sizes_of_the_environment_with_its_arguments() -> None:
    kwargs = {"exclude_current_positions_from_observation": False, "forward_reward_weight": 2.0}
    text = "offset + friction"
    task = tasks("HalfCheetah-v5", kwargs, text)[1]
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
