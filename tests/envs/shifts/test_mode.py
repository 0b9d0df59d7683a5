"""Atari games with shifts: other modes, and the same pixels and rules as without shifts."""

import sys
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest

from supple.envs import AtariVector, Shifted, Vector, make_pixels
from tests.envs.pairs import live

pytest.importorskip("ale_py")
pytest.importorskip("cv2")


def made(**kwargs: int) -> gym.Env:
    AtariVector("breakout", 1).close()  # registers the games
    return gym.make("ALE/Breakout-v5", obs_type="ram", disable_env_checker=True, **kwargs)


def play(env: gym.Env, seed: int | None = 3) -> np.ndarray:
    """Return the memory of Breakout in each of 30 steps."""
    actions = np.random.default_rng(0).integers(4, size=30)
    return np.stack([env.reset(seed=seed)[0], *(env.step(action)[0] for action in actions)])


@pytest.mark.slow
def test_a_game_is_played_in_the_drawn_mode_until_the_next_task() -> None:
    env = Shifted(made(), "mode", seed=1)
    seen = []
    for task in (0, 1, 2):
        env.task = task
        values = env.shifts.values(env, 1, task)["mode"]
        plain = made(**values)
        for seed in (3, None):
            np.testing.assert_array_equal(play(env, seed), play(plain, seed))
        seen.append(tuple(values.values()))
    assert seen[0] == (0, 0)
    assert all(one != other for one, other in pairwise(seen))


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
    assert live(envs, plain, 40) == 2


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


@pytest.mark.parametrize(("game", "shift"), [("breakout", "offset"), ("breakout", "friction"), ("asterix", "mode")])
def test_shifts_that_are_not_for_a_game_are_refused_by_name(game: str, shift: str) -> None:
    with pytest.raises(ValueError, match=rf"^{shift} (needs|has nothing to change).*ALE/{game.title()}-v5"):
        make_pixels(game, 1, shifts=shift)


def test_missing_opencv_is_one_line_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(ImportError, match=r"OpenCV: pip install 'supple\[atari\]'$"):
        make_pixels("breakout", 1, shifts="none")
