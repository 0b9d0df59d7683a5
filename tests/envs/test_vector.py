"""A vector equals its environments stepped by hand, also across the ends of episodes, without dummy steps."""

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.envs import Episode, Vector, make_env
from tests.envs.test_repeat import Counter


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
@pytest.mark.parametrize("name", ["hopper", "ant"])
def test_a_vector_equals_single_environments_stepped_by_hand(name: str):
    n, seeds = 3, [11, 5, 8]
    vector, singles = Vector([lambda: make_env(name)] * n), [make_env(name) for _ in range(n)]
    obs = vector.reset(seeds)
    expected = np.stack([env.reset(seed=seed)[0] for env, seed in zip(singles, seeds, strict=True)])
    np.testing.assert_array_equal(obs, expected)
    returns, lengths, ends = [0.0] * n, [0] * n, 0
    rng = np.random.default_rng(0)
    for _ in range(150):
        actions = rng.uniform(-1, 1, (n, *singles[0].action_space.shape)).astype(np.float32)
        result = vector.step(actions)
        for i, env in enumerate(singles):
            observation, reward, terminated, truncated, _ = env.step(actions[i])
            np.testing.assert_array_equal(result.final_obs[i], observation)
            assert (result.reward[i], result.terminated[i], result.truncated[i]) == (
                reward,
                terminated,
                truncated,
            )
            returns[i], lengths[i] = returns[i] + reward, lengths[i] + 1
            if terminated or truncated:
                episode = next(episode for episode in result.episodes if episode.index == i)
                assert episode == Episode(i, returns[i], lengths[i])
                returns[i], lengths[i], ends = 0.0, 0, ends + 1
                observation, _ = env.reset()
            np.testing.assert_array_equal(result.obs[i], observation)
    assert ends > 0
    assert result.obs.dtype == np.float64
    vector.close()


@pytest.mark.slow
def test_same_seeds_give_the_same_trajectory_in_the_same_and_in_a_new_vector():
    actions = np.random.default_rng(1).uniform(-1, 1, (120, 2, 3))

    def trajectory(vector: Vector, seeds: list[int]) -> np.ndarray:
        return np.stack([vector.reset(seeds), *(vector.step(a).obs for a in actions)])

    vector = Vector([lambda: make_env("hopper")] * 2)
    first = trajectory(vector, [3, 4])
    np.testing.assert_array_equal(first, trajectory(vector, [3, 4]))
    np.testing.assert_array_equal(first, trajectory(Vector([lambda: make_env("hopper")] * 2), [3, 4]))
    assert not np.array_equal(first, trajectory(vector, [3, 5]))


def test_successive_episodes_start_differently():
    vector = Vector([lambda: make_env("hopper")])
    starts = [vector.reset([0])]
    while len(starts) < 4:
        result = vector.step(np.ones((1, 3)))
        if result.episodes:
            starts.append(result.obs)
    assert len(np.unique(np.concatenate(starts), axis=0)) == 4


@pytest.mark.slow
def test_the_time_limit_truncates_and_does_not_terminate():
    vector = Vector([lambda: make_env("halfcheetah")] * 2)
    vector.reset([0, 1])
    for _ in range(999):
        assert not vector.step(np.zeros((2, 6))).episodes
    result = vector.step(np.zeros((2, 6)))
    assert result.truncated.all()
    assert not result.terminated.any()
    assert [(episode.length, episode.exploded) for episode in result.episodes] == [(1000, False)] * 2


def test_an_explosion_is_reported_with_its_episode_and_the_others_go_on():
    vector = Vector([lambda: make_env("halfcheetah")] * 2)
    vector.reset([0, 1])
    before = vector.step(np.zeros((2, 6)))
    vector.envs[1].unwrapped.data.qvel[:] = 1e12
    result = vector.step(np.zeros((2, 6)))
    (episode,) = result.episodes
    assert (episode.index, episode.ret, episode.length, episode.exploded) == (1, before.reward[1], 2, True)
    assert isinstance(episode.explosion, float)
    assert list(result.terminated) == [False, True]
    np.testing.assert_array_equal(result.final_obs[1], before.obs[1])
    assert not vector.step(np.zeros((2, 6))).episodes


def test_a_reset_drops_the_running_episode():
    vector = Vector([lambda: Counter(3)])
    vector.reset([0])
    vector.step(np.zeros((1, 1)))
    vector.reset([0])
    results = [vector.step(np.zeros((1, 1))) for _ in range(3)]
    assert results[-1].episodes == [Episode(0, 6.0, 3)]


@pytest.mark.slow
def test_discrete_observations_and_actions_work():
    vector = Vector([lambda: make_env("FrozenLake-v1")] * 2)
    assert vector.reset([0, 1]).shape == (2,)
    assert vector.step(np.array([0, 1])).obs.dtype == np.int64


class Takes(gym.Env):
    """An environment that changes its action in place."""

    observation_space, action_space = gym.spaces.Box(-1, 1, (1,), np.float32), gym.spaces.MultiDiscrete([3, 3])

    def reset(self, **_: object) -> tuple[np.ndarray, dict]:
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        action += 7
        return np.zeros(1, np.float32), 0.0, False, False, {}


def test_environments_cannot_change_the_actions_of_the_agent():
    vector, actions = Vector([Takes] * 2), np.array([[0, 1], [2, 0]])
    vector.reset([0, 1])
    vector.step(actions)
    np.testing.assert_array_equal(actions, [[0, 1], [2, 0]])
