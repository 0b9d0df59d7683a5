"""Atari games with shifts: other modes, and the same pixels and rules as without shifts."""

import sys
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest

from supple.envs import AtariVector, Shifted, Vector, make_pixels, parse_shifts

pytest.importorskip("ale_py")
pytest.importorskip("cv2")


def frames(mode: int, difficulty: int, steps: int = 30) -> np.ndarray:
    """Return the memory of Breakout in each step, in a mode that was set when it was made."""
    env = gym.make("ALE/Breakout-v5", mode=mode, difficulty=difficulty, obs_type="ram", disable_env_checker=True)
    return play(env, steps)


def play(env: gym.Env, steps: int = 30, seed: int | None = 3) -> np.ndarray:
    actions = np.random.default_rng(0).integers(4, size=steps)
    return np.stack([env.reset(seed=seed)[0], *(env.step(action)[0] for action in actions)])


@pytest.fixture(scope="module")
def breakout() -> gym.Env:
    AtariVector("breakout", 1).close()  # registers the games
    return gym.make("ALE/Breakout-v5", obs_type="ram", disable_env_checker=True)


@pytest.mark.slow
def test_a_game_is_played_in_the_drawn_mode(breakout: gym.Env) -> None:
    env = Shifted(breakout, "mode", seed=1)
    seen = []
    for task in range(3):
        env.task = task
        values = env.shifts.values(breakout, 1, task)["mode"]
        np.testing.assert_array_equal(play(env), frames(**values))
        seen.append(tuple(values.values()))
    assert seen[0] == (0, 0)
    assert all(one != other for one, other in pairwise(seen))
    env.task = 0
    np.testing.assert_array_equal(play(env), play(breakout))


@pytest.mark.slow
def test_the_mode_holds_after_a_reset_without_a_seed(breakout: gym.Env) -> None:
    def after_two_resets(env: gym.Env) -> np.ndarray:
        env.reset(seed=5)
        return play(env, seed=None)

    env = Shifted(breakout, "mode", seed=1, task=1)
    made = gym.make(
        "ALE/Breakout-v5", obs_type="ram", disable_env_checker=True, **env.shifts.values(breakout, 1, 1)["mode"]
    )
    np.testing.assert_array_equal(after_two_resets(env), after_two_resets(made))


@pytest.mark.slow
def test_a_gradual_change_of_mode_is_drawn_for_each_episode(breakout: gym.Env) -> None:
    env = Shifted(breakout, "mode(over=10)", seed=1, task=1)
    new = env.shifts.values(breakout, 1, 1)["mode"]
    env.reset(seed=0)
    found = []
    for steps in (0, 5, 10):
        env.progress(steps)
        modes = []
        for _ in range(8):
            env.reset()
            game = env.unwrapped
            modes.append({"mode": game._game_mode, "difficulty": game._game_difficulty} == new)
        found.append(set(modes))
    assert found == [{False}, {False, True}, {True}]


def test_a_game_of_one_mode_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"^mode has nothing to change: ALE/Asterix-v5 has only one mode and one difficulty$"
    ):
        make_pixels("asterix", 1, shifts="mode")


@pytest.mark.slow
@pytest.mark.parametrize("sticky", [0.0, 1.0])  # since between them, other actions are sticky
def test_a_game_with_shifts_has_the_pixels_and_rules_of_one_without(sticky: float) -> None:
    settings = {"sticky": sticky, "sticky_per": "step", "max_frames": 130}
    plain = AtariVector("breakout", 2, **settings)
    envs = make_pixels("breakout", 2, shifts="negate_reward + permute_actions", task=0, **settings)
    assert isinstance(envs, Vector)
    assert envs.single_observation_space == plain.single_observation_space
    assert envs.single_action_space == plain.single_action_space
    np.testing.assert_array_equal(envs.reset([0, 1]), plain.reset([0, 1]))
    ended = 0
    for actions in np.random.default_rng(0).integers(4, size=(40, 2)):
        ours, theirs = envs.step(actions), plain.step(actions)
        for one, other in zip(ours[:5], theirs[:5], strict=True):
            np.testing.assert_array_equal(one, other)
        assert ours.episodes == theirs.episodes
        ended += len(ours.episodes)
    assert ended == 2


@pytest.mark.slow
def test_a_sticky_action_repeats_what_reached_the_game_in_half_of_the_steps() -> None:
    envs = make_pixels("breakout", 1, sticky=0.5, sticky_per="step", shifts="none")
    told: list[int] = []
    game = envs.envs[0].unwrapped
    step = game.step
    game.step = lambda action: told.append(int(action)) or step(action)
    envs.reset([0])
    for k in range(200):
        envs.step(np.array([k % 4]))
    late = np.array(told[::4]) != np.arange(200) % 4
    assert 70 < late.sum() < 130


@pytest.mark.slow
def test_actions_and_rewards_of_games_are_shifted() -> None:
    plain = make_pixels("breakout", 1, sticky=0.0, shifts="none")
    envs = make_pixels("breakout", 1, sticky=0.0, shifts="flip_actions + negate_reward", task=1)
    np.testing.assert_array_equal(envs.reset([0]), plain.reset([0]))
    total = 0.0
    for action in np.random.default_rng(1).integers(4, size=150):
        ours, theirs = envs.step(np.array([3 - action])), plain.step(np.array([action]))
        np.testing.assert_array_equal(ours.obs, theirs.obs)
        assert ours.reward == -theirs.reward
        total += theirs.reward[0]
    assert total > 0


@pytest.mark.parametrize("name", ["offset", "permute", "noise", "rescale", "friction", "direction"])
def test_shifts_that_are_not_for_games_are_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name} needs .*ALE/Breakout-v5"):
        make_pixels("breakout", 1, shifts=parse_shifts(name))


def test_missing_opencv_is_one_line_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(
        ImportError, match=r"^shifts and videos of Atari games need OpenCV: pip install 'supple\[atari\]'$"
    ):
        make_pixels("breakout", 1, shifts="none")
