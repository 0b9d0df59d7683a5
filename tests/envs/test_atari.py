"""Atari against ALE itself: pixels, rewards, ends of episodes, stickiness, seeds."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

from supple.envs import AtariVector, Envs, StepResult
from tests.envs.pairs import assert_same

ale_py = pytest.importorskip("ale_py")


def reference(game: str, max_frames: int = 108_000) -> gym.Env:
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    raw = gym.make(f"ALE/{game}-v5", frameskip=1, repeat_action_probability=0.0, max_num_frames_per_episode=max_frames)
    grey = AtariPreprocessing(
        raw, noop_max=0, frame_skip=4, terminal_on_life_loss=False, screen_size=84, grayscale_obs=True
    )
    return FrameStackObservation(grey, 4, padding_type="zero")


def play(envs: Envs, seeds: Sequence[int], steps: int) -> tuple[np.ndarray, list[StepResult]]:
    """Return the first observations and the results of random actions, which are the same in every call."""
    rng = np.random.default_rng(0)
    first = envs.reset(seeds)
    return first, [envs.step(rng.integers(envs.single_action_space.n, size=len(seeds))) for _ in range(steps)]


# Enough steps to reach beyond one game over with the actions of this seed; and a cap on frames that is no multiple
# of the four of a step.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "seed", "steps", "max_frames"),
    [
        ("Asterix", 0, 330, 108_000),
        ("BeamRider", 0, 1120, 108_000),
        ("DemonAttack", 1, 355, 108_000),
        ("Asterix", 0, 120, 402),
    ],
)
def test_every_pixel_reward_and_end_is_that_of_gymnasiums_preprocessing(
    game: str, seed: int, steps: int, max_frames: int
):
    env, envs = reference(game, max_frames), AtariVector(f"ALE/{game}-v5", 1, sticky=0.0, max_frames=max_frames)
    assert envs.single_observation_space == env.observation_space
    assert envs.single_action_space == env.action_space
    observation, _ = env.reset(seed=7)
    first = envs.reset([7])
    np.testing.assert_array_equal(first[0], observation)
    assert not first[0, :-1].any()
    rng = np.random.default_rng(seed)
    ret, lives, lost, ended = 0.0, 0, 0, []
    for _ in range(steps):
        action = int(rng.integers(env.action_space.n))
        observation, reward, terminated, truncated, info = env.step(action)
        result = envs.step(np.array([action]))
        np.testing.assert_array_equal(result.final_obs[0], observation)
        assert (result.reward[0], result.terminated[0], result.truncated[0]) == (reward, terminated, truncated)
        ret += float(reward) if not ended else 0.0
        lost += info["lives"] < lives and not terminated
        lives = info["lives"]
        ended += result.episodes
        if terminated or truncated:
            observation, _ = env.reset()
            lives = 0
        np.testing.assert_array_equal(result.obs[0], observation)
    assert [episode.ret for episode in ended] == [ret]
    if max_frames == 108_000:
        assert lost > 0  # lives were lost, and the episode went on
        assert ret > 9  # returns are of true rewards, which are 50 and 44 and 10 a hit


@pytest.mark.slow
def test_final_observations_are_valid_in_every_row():
    envs = AtariVector("asterix", 3, sticky=0.25)
    last, results = play(envs, [1, 2, 3], 320)
    assert any(len(result.episodes) in (1, 2) for result in results)
    for obs, reward, terminated, truncated, final_obs, episodes in results:
        done = terminated | truncated
        assert [episode.index for episode in episodes] == list(np.flatnonzero(done))
        np.testing.assert_array_equal(final_obs[:, :-1], last[:, 1:])  # the stack goes on to the true last frame
        np.testing.assert_array_equal(obs[~done], final_obs[~done])
        assert not obs[done, :-1].any()
        assert obs[:, -1].any(axis=(1, 2)).all()
        assert reward.dtype == np.float64
        last = obs


@pytest.mark.slow
def test_the_protocol_of_the_paper_is_the_default(monkeypatch: pytest.MonkeyPatch):
    given: dict[str, Any] = {}
    monkeypatch.setattr(ale_py, "AtariVectorEnv", lambda game, copies, **settings: given.update(settings) or Spy())
    AtariVector("ALE/Asterix-v5", 1)
    assert (given["repeat_action_probability"], given["max_num_frames_per_episode"]) == (0.25, 108_000)
    AtariVector("ALE/Asterix-v5", 1, sticky=0.5, sticky_per="step", max_frames=400)
    assert (given["repeat_action_probability"], given["max_num_frames_per_episode"]) == (0.0, 400)


@pytest.mark.slow
@pytest.mark.parametrize("per", ["frame", "step"])
def test_sticky_actions_change_the_game_and_depend_on_the_seeds_only(per: Any):
    envs = AtariVector("asterix", 2, sticky_per=per, max_frames=240)
    first = play(envs, [3, 4], 100)
    assert first[1][59].episodes
    for other in (envs, AtariVector("asterix", 2, sticky_per=per, max_frames=240, threads=2)):
        again = play(other, [3, 4], 100)
        assert_same(first[0], again[0])
        for one, two in zip(first[1], again[1], strict=True):
            assert_same(one, two)

    def last_frames(envs: AtariVector, seeds: list[int]) -> np.ndarray:
        return play(envs, seeds, 50)[1][-1].obs

    frames = first[1][49].obs
    assert not np.array_equal(frames, last_frames(envs, [3, 5]))
    assert not np.array_equal(frames, last_frames(AtariVector("asterix", 2, sticky=0.0, sticky_per=per), [3, 4]))


class Spy:
    """A replacement for ALE that records its actions. Environment 0 ends its episode at every tenth step."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self.single_observation_space = gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)
        self.single_action_space = gym.spaces.Discrete(1000)
        self.actions: list[np.ndarray] = []

    def reset(self, seed: np.ndarray) -> tuple[np.ndarray, dict]:
        self.actions = []
        return np.zeros((len(seed), 1)), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        self.actions.append(actions.copy())
        n, obs = len(actions), np.zeros((len(actions), 1))
        done = (np.arange(n) == 0) & (len(self.actions) % 10 == 0)
        return obs, np.zeros(n, np.int32), done, np.zeros(n, bool), {"final_obs": obs}


def test_stickiness_per_step_repeats_a_quarter_of_all_actions(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ale_py, "AtariVectorEnv", Spy)
    n, steps = 4, 2000
    envs = AtariVector("asterix", n, sticky=0.25, sticky_per="step")
    envs.reset(range(n))
    for t in range(1, steps + 1):
        envs.step(np.full(n, t % 1000))  # never the same twice in a row
    sent = np.stack(envs._envs.actions)
    chosen = np.arange(1, steps + 1)[:, None] % 1000
    previous = np.concatenate([np.zeros((1, n), int), sent[:-1]])
    previous[10::10, 0] = 0  # a new episode begins as if after a no-op
    repeated = sent != chosen
    np.testing.assert_array_equal(sent[repeated], previous[repeated])
    assert (sent[10::10, 0] == 0).any()
    sigma = (0.25 * 0.75 * steps) ** 0.5
    counts = repeated.sum(axis=0)
    assert (np.abs(counts - 0.25 * steps) < 4 * sigma).all(), counts
    both = (repeated[:, 0] & repeated[:, 1]).mean()  # a draw for each environment: independent
    assert abs(both - 1 / 16) < 4 * (1 / 16 * 15 / 16 / steps) ** 0.5


@pytest.mark.slow
def test_actions_and_seeds_that_ale_would_misread_are_refused():
    envs = AtariVector("asterix", 2)
    with pytest.raises(ValueError, match="2 environments need as many seeds, got 1"):
        envs.reset([0])
    for seed in (-1, 2**31):
        with pytest.raises(ValueError, match=r"seeds from 0 to 2\*\*31 - 1"):
            envs.reset([0, seed])
    envs.reset([0, 2**31 - 1])
    for actions in ([0, 9], [-1, 0]):
        with pytest.raises(ValueError, match="actions must be from 0 to 8, got"):
            envs.step(np.array(actions))
    with pytest.raises(ValueError, match=r"2 environments need as many actions, got shape \(1,\)"):
        envs.step(np.zeros(1, int))
