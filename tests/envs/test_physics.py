"""Copies of a MuJoCo task in one batch have the same results as one by one, bit for bit, or are not batched."""

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from supple.envs import EnvironmentFault, Vector, is_batched, make_env, vectorize
from supple.envs.physics import PhysicsVector
from supple.envs.physics_tasks import TASKS, HalfCheetah
from tests.envs import pairs
from tests.envs.pairs import assert_same, live

COPIES = 4
pair = partial(pairs.pair, kind=PhysicsVector, copies=COPIES)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", TASKS)
def test_steps_are_those_of_gymnasium_to_the_last_bit(name: str, threads: int) -> None:
    singly, together = pair(name, threads=threads, max_episode_steps=60)
    assert live(singly, together, 150) >= 2 * COPIES
    (obs, episodes), theirs = singly.restart(), together.restart()
    np.testing.assert_array_equal(obs, theirs[0])
    assert episodes == theirs[1] != []
    live(singly, together, 20)
    together.close()


@pytest.mark.parametrize("cause", ["control", "position", "reward", "velocity"])
def test_explosions_are_found_as_by_the_guard(cause: str) -> None:
    singly, together = pair("hopper", threads=2)
    live(singly, together, 3)
    actions = np.zeros((COPIES, 3), np.float32)
    for envs in (singly, together):
        data: Any = envs.envs[1].unwrapped.data  # type: ignore[attr-defined]
        if cause == "position":
            data.qpos[3] = 1e12
        elif cause == "velocity":
            data.qvel[:] = np.inf
        elif cause == "reward":
            data.qvel[0] = -1e9
    if cause == "control":
        actions[1] = np.nan
    results = singly.step(actions), together.step(actions)
    assert [(episode.index, episode.exploded) for episode in results[0].episodes] == [(1, True)]
    assert_same(*results)
    live(singly, together, 10)


@pytest.mark.slow
def test_shifted_physics_is_stepped_in_one_batch() -> None:
    text = "friction(over=2000,from_task=0) + actuators(over=3000,from_task=0) + gravity(from_task=0) + none"
    singly, together = pair("hopper", threads=2, shifts=text, friction=0.5)
    assert live(singly, together, 200, passed=20) > 4
    assert singly.envs[0].unwrapped.model.geom_friction[1, 0] != 1.0  # type: ignore[attr-defined]
    assert live(*pair("halfcheetah", shifts="stiffness(over=300,from_task=0)", max_episode_steps=50), 100, passed=20)


def test_actions_are_not_clipped_if_not_asked_for() -> None:
    live(*pair("halfcheetah", clip_actions=False), 20)


def test_a_task_whose_batched_steps_differ_is_stepped_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Generous(HalfCheetah):
        def judge(self, before: np.ndarray, now: np.ndarray, actions: np.ndarray) -> Any:
            reward, ends = super().judge(before, now, actions)
            return np.nextafter(reward, np.inf), ends

    assert is_batched("halfcheetah")
    monkeypatch.setitem(TASKS, "HalfCheetah-v5", Generous)
    assert not is_batched("halfcheetah")


def test_a_trial_chooses_the_number_of_threads_and_does_not_change_the_results() -> None:
    make: Callable[[], gym.Env] = lambda: make_env("hopper")  # noqa: E731
    singly, tried = Vector([make] * COPIES), vectorize([make] * COPIES, threads=3, fewer=True)
    np.testing.assert_array_equal(*(envs.reset(range(COPIES)) for envs in (singly, tried)))
    live(singly, tried, 40)
    tried.close()


def test_an_error_in_another_thread_is_reported_as_a_fault_of_the_environment() -> None:
    _, together = pair("hopper", threads=2)
    together._simulations[-1] = (None, *together._simulations[-1][1:])  # the share of the second thread
    with pytest.raises(EnvironmentFault, match="Hopper"):
        together.step(np.zeros((COPIES, 3)))
    together.close()
