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


class Broken(gym.Env):
    """An environment that observes its step, from 1. At step `when`, reward and observation are the given ones."""

    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self, reward: float = 1.0, observation: float = 0.0, when: int = 3, dtype: Any = np.float64) -> None:
        low, high = (0, 255) if dtype is np.uint8 else (-np.inf, np.inf)
        self.observation_space = gym.spaces.Box(low, high, (2,), dtype)
        self.bad, self.when, self.dtype, self.broken, self.step_count = (
            (reward, observation),
            when,
            dtype,
            True,
            0,
        )

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        self.step_count = 0
        return np.zeros(2, self.dtype), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.step_count += 1
        if self.broken and self.step_count == self.when:
            reward, observation = self.bad
            return np.array([self.step_count, observation], self.dtype), reward, False, True, {"kept": 1}
        return np.full(2, self.step_count, self.dtype), 1.0, False, False, {}


def third_step(env: gym.Env) -> tuple[np.ndarray, float, bool, bool, dict]:
    env.reset(seed=0)
    for _ in range(2):
        assert env.step(np.zeros(1))[1:] == (1.0, False, False, {})
    return env.step(np.zeros(1))


@pytest.mark.parametrize(
    ("reward", "reported"),
    [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf"), (np.float32(-np.inf), "-inf")],
)
def test_a_reward_that_is_no_number_ends_the_episode_and_is_reported(reward: float, reported: str):
    env = Guard(Broken(reward=reward))
    observation, given, terminated, truncated, info = third_step(env)
    np.testing.assert_array_equal(observation, [2.0, 2.0])
    assert (given, terminated, truncated) == (0.0, True, False)
    assert isinstance(info, ExplosionInfo)
    assert (info, info.reward, info.cause) == ({"kept": 1}, reported, "reward")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_observation_that_is_no_number_ends_the_episode(value: float):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        observation, given, terminated, _, info = third_step(Guard(Broken(reward=7.5, observation=value)))
    np.testing.assert_array_equal(observation, [2.0, 2.0])
    assert (given, terminated) == (0.0, True)
    assert isinstance(info, ExplosionInfo)
    assert (info.reward, info.cause) == (7.5, "observation")


@pytest.mark.parametrize(
    ("reward", "value", "dtype"),
    [
        (-1e6, 1e200, np.float64),
        (-2.5e6, 0.0, np.float64),
        (np.float32(-1e38), 0.0, np.float32),
        (1e9, 1e30, np.float32),
        (0.0, 255, np.uint8),
    ],
)
def test_large_finite_numbers_are_no_explosion(reward: float, value: float, dtype: Any):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        observation, given, terminated, truncated, info = third_step(Guard(Broken(reward, value, dtype=dtype)))
    np.testing.assert_array_equal(observation, np.array([3, value], dtype))
    assert (given, terminated, truncated, info) == (reward, False, True, {"kept": 1})


def test_the_episode_after_an_explosion_is_an_ordinary_one():
    env = Guard(Broken(reward=np.nan))
    assert third_step(env)[2]
    env.unwrapped.broken = False
    assert third_step(env)[1:4] == (1.0, False, False)


@pytest.mark.parametrize("steps_before", [0, 5])
@pytest.mark.parametrize("speed", [1e8, 1e12, np.nan])
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


def test_an_action_that_is_no_number_is_an_explosion():
    env = make_env("inverted_pendulum")
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(np.array([np.nan]))
    assert (reward, terminated) == (0.0, True)
    assert isinstance(info, ExplosionInfo)


class Shows(gym.Env):
    """An environment with the given observation space and observation."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, space: gym.Space, value: Any, reward: Any = 0.0) -> None:
        self.observation_space, self.value, self.reward = space, value, reward

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        return self.value, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        return self.value, self.reward, False, False, {}


BYTES = gym.spaces.Box(0, 255, (2,), np.uint8)


NUMBER = gym.spaces.Discrete(4, start=1)
FAULTS = [
    (NUMBER, 0), (NUMBER, 5), (NUMBER, None),
    (BYTES, np.zeros((2, 1))), (BYTES, None), (gym.spaces.Dict({"a": BYTES}), {"a": 0}),  # of another shape
    (BYTES, np.array([0.5, 1.0])), (BYTES, [300, 0]), (BYTES, np.array([1, -1])),  # that their space cannot hold
    (gym.spaces.Box(-9, 9, (2,), np.int64), np.array([0.0, np.nan])),
    (gym.spaces.Box(0, 1, (1,), np.bool_), np.array([2])),
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
    assert env.step(0)[1:] == (0.0, False, False, {})
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
