"""What each shift does to observations, actions and rewards."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiBinary

from supple.envs import ExplosionInfo, Shifted, make_env
from tests.envs.worlds import Toy


def values(env: Shifted, name: str) -> dict[str, Any]:
    return env.shifts.values(env.env, env.seed, env.task)[name]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_offset_adds_a_constant_and_rescale_multiplies_one(dtype: type) -> None:
    for name, key, operation in (("offset", "offset", np.add), ("rescale", "factor", np.multiply)):
        inner = Toy(Box(-1, 1, (2, 3), dtype))
        env = Shifted(inner, name, seed=4, task=2)
        assert env.observation_space == Box(-np.inf, np.inf, (2, 3), dtype)
        constant = np.array(values(env, name)[key], dtype)
        seen = [env.reset(seed=0)[0]]
        np.testing.assert_array_equal(seen[0], operation(inner.shown, constant))
        seen.append(env.step(0)[0])
        np.testing.assert_array_equal(seen[1], operation(inner.shown, constant))
        assert [o.dtype for o in seen] == [dtype] * 2


def test_noise_has_the_task_s_deviations_and_is_drawn_from_the_seed_of_the_reset() -> None:
    inner = Toy(Box(0, 0, (2,), np.float32))
    env = Shifted(inner, "noise(scale=0.5)", task=1)

    def noise(seed: int | None, steps: int) -> np.ndarray:
        return np.stack([env.reset(seed=seed)[0], *(env.step(0)[0] for _ in range(steps))])

    drawn = noise(3, 4000)
    assert drawn.dtype == np.float32
    np.testing.assert_allclose(drawn.std(0), values(env, "noise")["deviation"], rtol=0.06)
    np.testing.assert_allclose(drawn.mean(0), 0, atol=0.03)
    np.testing.assert_array_equal(noise(3, 5), drawn[:6])
    assert not np.array_equal(noise(None, 5), drawn[:6])  # goes on from there
    assert not np.array_equal(noise(4, 5), drawn[:6])


@pytest.mark.parametrize("space", [Box(-1, 1, (5,)), Box(-1, 1, (2, 3)), MultiBinary(4)])
def test_permute_shows_the_same_numbers_in_another_order(space: gym.Space) -> None:
    inner = Toy(space)
    env = Shifted(inner, "permute", task=1)
    seen = env.reset(seed=1)[0]
    np.testing.assert_array_equal(seen.ravel(), inner.shown.ravel()[values(env, "permute")["order"]])
    assert (seen.shape, seen.dtype) == (inner.shown.shape, inner.shown.dtype)
    assert env.observation_space == space


def test_permute_maps_discrete_observations_one_to_one() -> None:
    inner = Toy(Discrete(6, start=2))
    env = Shifted(inner, "permute", task=1)
    seen = {}
    env.reset(seed=1)
    for _ in range(100):
        observation = env.step(0)[0]
        seen[int(inner.shown)] = int(observation)
    assert [seen[number] - 2 for number in range(2, 8)] == values(env, "permute")["order"]


def test_permute_widens_bounds_to_hold_in_every_task() -> None:
    inner = Toy(Box(np.array([-1.0, 0.0, 2.0]), np.array([1.0, 5.0, 3.0]), dtype=np.float64))
    assert Shifted(inner, "permute").observation_space == Box(-1.0, 5.0, (3,), np.float64)


@pytest.mark.parametrize(
    ("space", "action", "mirrored"),
    [
        (Discrete(4), 1, 2),
        (Discrete(3, start=5), 5, 7),
        (Box(-1, 1, (2,)), [0.25, -1], [-0.25, 1]),
        (Box(np.float32([0, -1]), np.float32([2, 0])), [0.5, -0.5], [1.5, -0.5]),
        (Box(-np.inf, np.inf, (2,)), [3, -1], [-3, 1]),
    ],
)
def test_flip_actions_mirrors_every_second_task(space: gym.Space, action: Any, mirrored: Any) -> None:
    inner = Toy(action_space=space)
    env = Shifted(inner, "flip_actions")
    for task, expected in ((0, action), (1, mirrored), (2, action)):
        env.task = task
        env.reset(seed=0)
        env.step(np.array(action, space.dtype))
        np.testing.assert_array_equal(inner.told, [expected])
        assert space.contains(inner.told[0])


def test_permute_actions_permutes_discrete_actions() -> None:
    inner = Toy(action_space=Discrete(4, start=1))
    env = Shifted(inner, "permute_actions", seed=3, task=2)
    env.reset(seed=0)
    for action in np.arange(1, 5):
        env.step(action)
    assert [int(action) - 1 for action in inner.told] == values(env, "permute_actions")["order"]


def test_negate_reward_changes_the_sign_in_every_second_task() -> None:
    env = Shifted(Toy(), "negate_reward")
    for task, sign in ((0, 1), (1, -1), (2, 1)):
        env.task = task
        env.reset(seed=0)
        assert [env.step(0)[1] for _ in range(3)] == [sign, 2 * sign, 3 * sign]


def test_delay_passes_older_actions_and_starts_again_in_every_episode() -> None:
    inner = Toy(action_space=Box(0.5, 2.0, (1,)))
    seed = next(seed for seed in range(99) if Shifted(inner, "delay(steps=3)", seed, 1).after["delay"]["steps"] == 2)
    env = Shifted(inner, "delay(steps=3)", seed, 1)
    action = np.ones(1, np.float32)
    for _ in range(2):
        env.reset(seed=0)
        for step in range(5):
            action[0] = 1 + step / 8  # in the same memory
            env.step(action)
        np.testing.assert_array_equal(np.ravel(inner.told), [0.5, 0.5, 1, 1.125, 1.25])
    env.task = 0
    env.reset()
    env.step(action)
    assert inner.told == [action]


def test_delay_begins_with_the_first_discrete_action() -> None:
    inner = Toy(action_space=Discrete(3, start=4))
    env = next(env for s in range(99) if (env := Shifted(inner, "delay(steps=1)", s, 1)).after["delay"]["steps"])
    env.reset(seed=0)
    env.step(6)
    env.step(5)
    assert inner.told == [4, 6]


@pytest.mark.parametrize("name", ["HalfCheetah", "Ant", "Hopper", "Walker2d", "Swimmer", "Humanoid"])
def test_direction_reverses_the_forward_reward_and_leaves_the_costs(name: str) -> None:
    forwards, backwards = make_env(f"{name}-v5"), make_env(f"{name}-v5", shifts="direction", task=1)
    for env in (forwards, backwards):
        env.reset(seed=0)
        env.action_space.seed(0)
    for _ in range(3):
        action = forwards.action_space.sample()
        _, reward, *_, info = forwards.step(action)
        assert info["reward_forward"] != 0
        assert backwards.step(action)[1] == reward - 2 * info["reward_forward"]
    others = sum(value for key, value in info.items() if key.startswith("reward_") and key != "reward_forward")
    assert backwards.step(action)[1] != reward
    assert reward - info["reward_forward"] == pytest.approx(others, abs=1e-6)  # Hopper's cost is a float32


def test_an_explosion_keeps_its_reward_of_0() -> None:
    for text in ("direction", "negate_reward"):
        env = make_env("halfcheetah", shifts=text, task=1)
        env.reset(seed=0)
        env.unwrapped.data.qvel[:] = 1e12
        _, reward, terminated, _, info = env.step(np.zeros(6))
        assert (reward, terminated) == (0, True)
        assert isinstance(info, ExplosionInfo)
