"""Action repeat: rewards summed, no step after an end, lengths in steps of the environment."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.envs import Repeat, Vector, make_env


class Counter(gym.Env):
    """Observes its own step count, which is the reward too. Episode k lasts `lengths[k mod n]` steps; an even one
    terminates, an odd one is cut off."""

    observation_space = gym.spaces.Box(0, np.inf, (1,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self, *lengths: int) -> None:
        self.lengths, self.episode, self.count = lengths, -1, 0
        self.actions: list[float] = []

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        self.episode, self.count = self.episode + 1, 0
        return np.zeros(1), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        length = self.lengths[self.episode % len(self.lengths)]
        assert self.count < length, "stepped after its end"
        self.count += 1
        self.actions.append(float(action[0]))
        done, odd = self.count == length, self.episode % 2 == 1
        # `steps` is a word of the environment's own, as some have
        return (
            np.full(1, self.count),
            float(self.count),
            done and not odd,
            done and odd,
            {"steps": 1_000, "repeated": 7},
        )


@pytest.mark.slow
@settings(max_examples=40)
@given(times=st.integers(1, 5), length=st.integers(1, 12))
def test_a_repeated_step_sums_rewards_and_ends_with_the_episode(times: int, length: int) -> None:
    inner = Counter(length)
    env = Repeat(inner, times)
    for _ in range(2):
        env.reset()
        done, lengths, total = False, [], 0.0
        while not done:
            first = inner.count
            observation, reward, terminated, truncated, info = env.step(np.array([0.5]))
            assert info == {"steps": 1_000, "repeated": 7}
            assert observation[0] == inner.count == first + env.taken
            assert reward == sum(range(first + 1, inner.count + 1))
            done, total = terminated or truncated, total + float(reward)
            lengths.append(env.taken)
            assert terminated == (done and inner.episode % 2 == 0)
            assert truncated == (done and inner.episode % 2 == 1)
        assert sum(lengths) == length
        assert all(n == times for n in lengths[:-1])  # only the end cuts a decision short
        assert total == length * (length + 1) / 2


def test_every_step_gets_the_action() -> None:
    inner = Counter(10)
    env = Repeat(inner, 3)
    env.reset()
    for value in (0.25, -1.0):
        env.step(np.array([value]))
    assert inner.actions == [0.25] * 3 + [-1.0] * 3


@settings(max_examples=20)
@given(times=st.integers(1, 4), lengths=st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_episodes_of_a_vector_are_as_long_as_they_were_in_steps_of_the_environment(
    times: int, lengths: list[int]
) -> None:
    pool = iter(lengths)
    vector = Vector([lambda: Repeat(Counter(next(pool)), times)] * len(lengths))
    vector.reset(range(len(lengths)))
    episodes = [e for _ in range(20) for e in vector.step(np.zeros((len(lengths), 1))).episodes]
    assert {(e.index, e.length, e.ret) for e in episodes} == {
        (i, n, n * (n + 1) / 2) for i, n in enumerate(lengths) if n <= 20 * times
    }


def test_entries_of_info_do_not_change_the_length_of_episodes() -> None:
    vector = Vector([lambda: Counter(4)])
    vector.reset([0])
    (episode,) = [e for _ in range(4) for e in vector.step(np.zeros((1, 1))).episodes]
    assert episode.length == 4


def test_repeat_equals_stepping_by_hand() -> None:
    repeated, single = Repeat(make_env("Pendulum-v1"), 3), make_env("Pendulum-v1")
    assert repeated.reset(seed=3)[0].tolist() == single.reset(seed=3)[0].tolist()
    rng = np.random.default_rng(0)
    for decision in range(67):  # 200 steps and a remainder of two
        action = rng.uniform(-2, 2, 1).astype(np.float32)
        found = repeated.step(action)
        by_hand = [single.step(action) for _ in range(3 if decision < 66 else 2)]
        np.testing.assert_array_equal(found[0], by_hand[-1][0])
        assert found[1] == pytest.approx(sum(float(step[1]) for step in by_hand))
        assert found[2:4] == by_hand[-1][2:4] == (False, decision == 66)
    for env in (repeated, single):
        env.close()
