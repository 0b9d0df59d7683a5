"""Action repeat: rewards summed, no step after an end, lengths in steps of the environment."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.envs import Repeat, Vector
from tests.envs.worlds import Counter


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
