"""Explosions of physics end the episode, are reported, and do not affect the next one."""

import math
import warnings
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from supple.envs import EnvironmentFault, ExplosionInfo, Guard, make_env
from supple.envs.shifts.physics import model_of


class Shows(gym.Env):
    """An environment with the given observation space, observation and reward."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, space: gym.Space, value: Any, reward: Any = 0.0) -> None:
        self.observation_space, self.value, self.reward = space, value, reward

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        return self.value, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        return self.value, self.reward, False, True, {"kept": 1}


def third_step(value: float, reward: float, dtype: Any = np.float64) -> tuple[np.ndarray, float, bool, bool, dict]:
    """Return the step after one to the observation [2, 2], without warnings. The step after it is an ordinary one."""
    low, high = (0, 255) if dtype is np.uint8 else (-np.inf, np.inf)
    inner = Shows(gym.spaces.Box(low, high, (2,), dtype), np.full(2, 2, dtype), 1.0)
    env = Guard(inner)
    env.reset(seed=0)
    assert env.step(0)[1:] == (1.0, False, True, {"kept": 1})
    inner.value, inner.reward = np.array([3, value], dtype), reward
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step = env.step(0)
    inner.value, inner.reward = np.ones(2, dtype), 1.0
    assert env.step(0)[1:] == (1.0, False, True, {"kept": 1})
    return step


@pytest.mark.parametrize(
    ("value", "reward", "reported", "cause"),
    [
        (0.0, np.nan, "nan", "reward"),
        (0.0, np.inf, "inf", "reward"),
        (0.0, np.float32(-np.inf), "-inf", "reward"),
        (np.nan, 7.5, 7.5, "observation"),
        (-np.inf, 7.5, 7.5, "observation"),
    ],
)
def test_what_is_no_number_ends_the_episode_and_is_reported(value: float, reward: float, reported: Any, cause: str):
    observation, given, terminated, truncated, info = third_step(value, reward)
    np.testing.assert_array_equal(observation, [2.0, 2.0])
    assert (given, terminated, truncated) == (0.0, True, False)
    assert isinstance(info, ExplosionInfo)
    assert (info, info.reward, info.cause) == ({"kept": 1}, reported, cause)


@pytest.mark.parametrize(
    ("value", "reward", "dtype"),
    [
        (1e200, -2.5e6, np.float64),
        (0.0, np.float32(-1e38), np.float32),
        (1e30, 1e9, np.float32),
        (255, 0.0, np.uint8),
    ],
)
def test_large_finite_numbers_are_no_explosion(value: float, reward: float, dtype: Any):
    observation, given, terminated, truncated, info = third_step(value, reward, dtype)
    np.testing.assert_array_equal(observation, np.array([3, value], dtype))
    assert (given, terminated, truncated, info) == (reward, False, True, {"kept": 1})


@pytest.mark.parametrize(("steps_before", "speed"), [(0, 1e8), (5, 1e12), (5, np.nan)])
def test_a_diverged_simulation_that_mujoco_reset_by_itself_is_an_explosion(steps_before: int, speed: float):
    env = make_env("halfcheetah")
    last, _ = env.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1, 1, (10, 6))
    for action in actions[:steps_before]:
        last = env.step(action)[0]
    env.unwrapped.data.qvel[:] = speed
    observation, reward, terminated, truncated, info = env.step(actions[-1])
    np.testing.assert_array_equal(observation, last)
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert isinstance(info, ExplosionInfo)
    assert info.cause == "simulation"
    assert math.isfinite(info.reward)  # MuJoCo hid the divergence from the reward

    fresh = make_env("halfcheetah")
    np.testing.assert_array_equal(env.reset(seed=4)[0], fresh.reset(seed=4)[0])
    for action in actions:
        ours, theirs = env.step(action), fresh.step(action)
        np.testing.assert_array_equal(ours[0], theirs[0])
        assert ours[1:] == theirs[1:]


BYTES = gym.spaces.Box(0, 255, (2,), np.uint8)
NUMBER = gym.spaces.Discrete(4, start=1)
FAULTS = [
    (NUMBER, 0), (NUMBER, 5),
    (BYTES, np.zeros((2, 1))), (gym.spaces.Dict({"a": BYTES}), {"a": 0}),  # of another shape
    (BYTES, np.array([0.5, 1.0])), (BYTES, np.array([1, -1])),  # that their space cannot hold
    (gym.spaces.Box(-9, 9, (2,), np.int64), np.array([0.0, np.nan])),
    (gym.spaces.Dict({"a": BYTES}), {"a": np.array([0.5, 1.0])}),
]  # fmt: skip


@pytest.mark.parametrize(("space", "value"), FAULTS)
def test_observations_outside_their_space_are_a_fault(space: gym.Space, value: Any):
    env = Guard(Shows(space, value))
    for call, look in (("reset", env.reset), ("step", lambda: env.step(0))):
        with pytest.raises(EnvironmentFault, match=rf"^Shows: {call}\(\) returned .* as observation.*, not one of "):
            look()


@pytest.mark.parametrize("result", [(1, 1.0, False, {}), (1, None, False, False, {})])
def test_results_of_another_form_are_a_fault(result: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shows, "step", lambda self, action: result)
    with pytest.raises(EnvironmentFault, match=r"^Shows: step\(\) raised (TypeError|ValueError)"):
        Guard(Shows(NUMBER, 1)).step(0)


def test_whole_numbers_of_another_type_become_those_of_the_space():
    env = Guard(Shows(BYTES, np.array([7.0, 255.0])))
    for observation in (env.reset()[0], env.step(0)[0]):
        assert observation.dtype == np.uint8
        np.testing.assert_array_equal(observation, [7, 255])


class Named(Shows):
    """An environment with attributes named like MuJoCo's."""

    @property
    def model(self) -> Any:
        raise RuntimeError("no model before the first reset")

    @property
    def data(self) -> Any:
        return SimpleNamespace(warning="none")


def test_attributes_named_like_mujocos_are_ignored():
    env = Guard(Named(BYTES, np.zeros(2, np.uint8)))
    env.reset()
    assert env.step(0)[1:] == (0.0, False, True, {"kept": 1})
    assert model_of(env) is None


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_numbers_that_are_infinite_in_the_type_of_their_space_are_not_finite(dtype: Any):
    space = gym.spaces.Box(-np.inf, np.inf, (2,), dtype)
    most = float(np.finfo(dtype).max)
    for shown, value in ((space, np.zeros(2)), (gym.spaces.Dict({"a": space}), {"a": np.zeros(2)})):
        env = Guard(Shows(shown, value))
        env.reset()
        env.unwrapped.value = np.full(2, most) if shown is space else {"a": np.full(2, most)}  # type: ignore[attr-defined]
        assert not isinstance(env.step(0)[4], ExplosionInfo)
        env.unwrapped.value = np.full(2, 2 * most) if shown is space else {"a": np.full(2, 2 * most)}  # type: ignore[attr-defined]
        assert isinstance(env.step(0)[4], ExplosionInfo)
        with pytest.raises(EnvironmentFault, match="an observation that is not finite"):
            env.reset()
