"""Gradual shifts: numbers are interpolated linearly, everything else changes episode by episode."""

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supple.envs import Shifted, make_env
from tests.envs.worlds import Toy


def offset(env: Shifted) -> np.ndarray:
    return env.step(0)[0] - env.unwrapped.shown


@pytest.mark.slow
@given(seed=st.integers(0, 2**32), task=st.integers(1, 4), share=st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0]))
def test_gradual_numbers_are_interpolated_linearly(seed: int, task: int, share: float) -> None:
    inner = Toy(gym.spaces.Box(0, 0, (3,), np.float64))
    env = Shifted(inner, "offset(over=100)", seed, task)
    before, after = (np.array(env.shifts.values(inner, seed, k)["offset"]["offset"]) for k in (task - 1, task))
    env.reset(seed=0)
    env.progress(int(100 * share))
    t = min(share, 1.0)
    expected = {0.0: before, 1.0: after}.get(t, before + t * (after - before))
    (np.testing.assert_array_equal if t in (0.0, 1.0) else np.testing.assert_allclose)(offset(env), expected)


def test_gradual_numbers_change_within_an_episode() -> None:
    env = Shifted(make_env("ant"), "friction(low=0.1,high=0.1,over=10)", task=1)
    env.reset(seed=0)
    seen = []
    for steps in (0, 5, 10):
        env.progress(steps)
        seen.append(env.unwrapped.model.geom_friction[0, 0])
    assert seen == pytest.approx([1, 0.55, 0.1])


@pytest.mark.parametrize("steps", [0, 30, 100])
def test_an_episode_has_the_new_values_with_the_share_of_steps_as_probability(steps: int) -> None:
    env = Shifted(Toy(), "negate_reward(over=100)", task=1)
    env.reset(seed=0)
    env.progress(steps)
    signs = []
    for _ in range(400):
        env.reset()
        rewards = [env.step(0)[1] for _ in range(2)]
        assert abs(rewards[1]) == 2
        assert rewards[0] * rewards[1] > 0  # one side for the whole episode
        signs.append(rewards[0] < 0)
    assert np.mean(signs) == (steps / 100 if steps != 30 else pytest.approx(0.3, abs=0.1))


def test_which_episodes_are_changed_is_drawn_from_the_seed_of_the_reset() -> None:
    def sides(seed: int) -> list[bool]:
        env = Shifted(Toy(), "negate_reward(over=100)", task=1)
        env.progress(50)
        found = []
        for k in range(20):
            env.reset(seed=seed if k == 0 else None)
            found.append(env.step(0)[1] < 0)
        return found

    assert sides(1) == sides(1)
    assert sides(1) != sides(2)


def test_a_gradual_change_starts_again_in_every_task() -> None:
    env = Shifted(Toy(gym.spaces.Box(0, 0, (3,), np.float64)), "offset(over=10)", task=1)
    env.reset(seed=0)
    env.progress(10)
    first = offset(env)
    env.task = 2
    np.testing.assert_array_equal(offset(env), first)
    env.progress(5)  # not before the next episode
    np.testing.assert_array_equal(offset(env), first)
    env.reset()
    assert not np.allclose(offset(env), first)
    env.progress(0)
    np.testing.assert_array_equal(offset(env), first)
