"""A vector equals its environments stepped by hand, also across the ends of episodes, without dummy steps."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.envs import ConcatenatedVector, Episode, Repeat, Vector, make_env
from tests.envs.pairs import assert_same, live
from tests.envs.worlds import Counter, Toy


@pytest.mark.slow
@settings(max_examples=30)
@given(lengths=st.lists(st.lists(st.integers(1, 7), min_size=1, max_size=3), min_size=1, max_size=4))
def test_every_transition_is_one_real_step(lengths: list[list[int]]):
    pool = iter(lengths)
    vector = Vector([lambda: Counter(*next(pool))] * len(lengths))
    obs = vector.reset(range(len(lengths)))
    finished = [0] * len(lengths)
    for _ in range(40):
        result = vector.step(np.zeros((len(lengths), 1)))
        np.testing.assert_array_equal(result.final_obs, obs + 1)  # a dummy step would lead from the end to 0
        np.testing.assert_array_equal(result.reward, result.final_obs[:, 0])
        done = result.terminated | result.truncated
        np.testing.assert_array_equal(result.obs, np.where(done[:, None], 0, result.final_obs))
        assert [episode.index for episode in result.episodes] == list(np.flatnonzero(done))
        for episode in result.episodes:
            i = episode.index
            length = lengths[i][finished[i] % len(lengths[i])]
            assert episode == Episode(i, length * (length + 1) / 2, length)
            assert (result.terminated[i], result.truncated[i]) == (finished[i] % 2 == 0, finished[i] % 2 == 1)
            finished[i] += 1
        obs = result.obs


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hopper", "FrozenLake-v1"])
def test_a_vector_equals_single_environments_stepped_by_hand(name: str):
    n, seeds, ends = 3, [11, 5, 8], 0
    vector, singles = Vector([lambda: make_env(name)] * n), [make_env(name) for _ in range(n)]
    space = vector.single_action_space
    for _ in range(2):
        space.seed(0)
        expected = np.stack([env.reset(seed=seed)[0] for env, seed in zip(singles, seeds, strict=True)])
        np.testing.assert_array_equal(vector.reset(seeds), expected)
        for _ in range(60):
            actions = np.stack([space.sample() for _ in range(n)])
            result = vector.step(actions)
            assert result.obs.dtype == vector.single_observation_space.dtype
            for i, env in enumerate(singles):
                observation, reward, terminated, truncated, _ = env.step(actions[i])
                np.testing.assert_array_equal(result.final_obs[i], observation)
                assert (result.reward[i], result.terminated[i], result.truncated[i]) == (reward, terminated, truncated)
                if terminated or truncated:
                    observation, _ = env.reset()
                    ends += 1
                np.testing.assert_array_equal(result.obs[i], observation)
    assert ends > 0


def test_a_reset_drops_the_running_episode():
    vector = Vector([lambda: Counter(3)])
    vector.reset([0])
    vector.step(np.zeros((1, 1)))
    vector.reset([0])
    results = [vector.step(np.zeros((1, 1))) for _ in range(3)]
    assert results[-1].episodes == [Episode(0, 6.0, 3)]


class Takes(Toy):
    """An environment that changes its action in place."""

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        action += 7
        return super().step(action)


def test_environments_cannot_change_the_actions_of_the_agent():
    vector = Vector([lambda: Takes(action_space=gym.spaces.MultiDiscrete([3, 3]))] * 2)
    actions = np.array([[0, 1], [2, 0]])
    vector.reset([0, 1])
    vector.step(actions)
    np.testing.assert_array_equal(actions, [[0, 1], [2, 0]])


def test_vectors_joined_have_the_results_of_one_vector() -> None:
    makes = [partial(make_env, "cartpole", shifts="offset(over=90)", seed=seed, task=1) for seed in range(5)]
    parts = [Vector(makes[:2]), Vector(makes[2:4]), Vector(makes[4:])]
    one, joined = Vector(makes), ConcatenatedVector(parts)
    assert joined.num_envs == 5
    assert_same(one.reset(range(5)), joined.reset(range(5)))
    assert live(one, joined, 100, passed=2) > 5
    joined.close()


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
