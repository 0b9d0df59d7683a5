"""Shifts of grids: goals drawn where the environment allows, FrozenLake's map mirrored."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import generate_random_map
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from supple.envs import Shifted, make_env, parse_shifts

DOWN, RIGHT = 1, 2


@pytest.fixture(scope="module")
def rooms() -> gym.Env:
    return make_env("ninerooms")


@given(seed=st.integers(0, 2**63), task=st.integers(0, 6))
def test_goals_are_drawn_outside_the_top_rooms_and_that_of_the_start(rooms: gym.Env, seed: int, task: int) -> None:
    goal = parse_shifts("goal(from_task=0)").values(rooms, seed, task)["goal"]["goal"]
    row, column = divmod(goal, 15)
    assert 5 <= row < 15
    assert 0 <= column < 15
    assert row >= 10 or not 5 <= column < 10


def test_the_goal_of_a_task_is_the_same_whichever_tasks_came_before() -> None:
    env = Shifted(gym.make("NineRooms-v0"), "goal", seed=1)
    drawn = {task: env.shifts.values(env, 1, task)["goal"]["goal"] for task in range(4)}
    assert drawn[0] is None  # the environment's own
    assert len(set(drawn.values())) == 4
    for task in (0, 3, 1, 0, 2):
        env.task = task
        env.reset()
        assert env.unwrapped.goal == (224 if task == 0 else drawn[task])


@pytest.mark.parametrize("slippery", [False, True])
@pytest.mark.parametrize("rows", [("SH", "FG"), *(generate_random_map(4, seed=seed) for seed in range(3))])
def test_a_mirrored_lake_is_the_lake_of_the_mirrored_map(rows: tuple[str, ...], slippery: bool) -> None:
    lake = gym.make("FrozenLake-v1", desc=rows, is_slippery=slippery)
    mirrored = gym.make(
        "FrozenLake-v1", desc=["".join(column) for column in zip(*rows, strict=True)], is_slippery=slippery
    )
    (shift,) = parse_shifts("mirror_map").parts
    shift.set(lake, {"reversed": True})
    inner = lake.unwrapped.P
    for state, actions in mirrored.unwrapped.P.items():
        for action, expected in actions.items():
            moves = inner[shift.observation(state)][shift.action(action)]
            assert sorted((p, shift.observation(after), r, end) for p, after, r, end in moves) == sorted(expected)


def test_mirror_map_alternates_or_stays_mirrored() -> None:
    for text, ways in (("mirror_map", "drdr"), ("mirror_map(stay=true)", "drrr")):
        env = make_env("frozenlake2x2", shifts=text)
        for task, way in enumerate(ways):
            env.task = task
            env.reset(seed=0)
            first, second = (DOWN, RIGHT) if way == "d" else (RIGHT, DOWN)
            assert env.step(first)[:4] == (2 if way == "d" else 1, 0.0, False, False)
            assert env.step(second)[:4] == (3, 1.0, True, False)


def test_an_episode_on_the_small_lake_has_at_most_two_steps() -> None:
    env = make_env("frozenlake2x2")
    for _ in range(2):
        env.reset(seed=0)
        assert [env.step(np.int64(0))[2:4] for _ in range(2)] == [(False, False), (True, False)]
    check_env(gym.make("FrozenLake2x2-v0", disable_env_checker=True).unwrapped, skip_render_check=True)
