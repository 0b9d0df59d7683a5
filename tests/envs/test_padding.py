"""Environments that one agent sees in turn: channels padded with zeros, actions that an environment lacks."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from supple.agents.spaces import describe_united, row_space, unite_environments
from supple.envs import SEQUENCES, Picture, United, flatten, make_env, unite
from supple.envs.padding import Padded
from tests.envs.worlds import Toy


def tiles(shape: tuple[int, ...] = (5, 5, 2), actions: int | None = 3, dtype: Any = np.uint8) -> Toy:
    return Toy(spaces.Box(0, 1, shape, dtype), spaces.Box(-1, 1, (1,)) if actions is None else spaces.Discrete(actions))


def words(shape: tuple[int, ...] = (5, 5, 2)) -> Toy:
    return Toy(spaces.Dict({"a": spaces.Box(0, 1, shape, np.uint8), "b": spaces.Discrete(3)}))


@pytest.mark.parametrize(
    ("one", "other", "united"),
    [
        (tiles(), tiles((5, 5, 4), 2), United(4, 3)),
        (tiles((2, 5, 5)), tiles((3, 5, 5)), United(3, 3)),
        (tiles((4, 5, 5, 2)), tiles((4, 5, 5, 3)), United(3, 3)),
        (tiles(actions=2), tiles(), United(2, 3)),
        (tiles(), tiles((5, 5, 3), None), United(3, 0)),
        (words(), words(), None),
        (tiles(), tiles(), None),
        (tiles((5,)), tiles((7,), 2), None),
    ],
)
def test_the_largest_numbers_of_channels_and_actions_are_those_of_all(one: Toy, other: Toy, united: Any) -> None:
    assert unite({"a": one, "b": other}) == united


def test_the_side_of_the_channels_can_be_said() -> None:
    envs = {"a": tiles((5, 5, 7)), "b": tiles((5, 5, 9))}
    assert unite(envs, "hwc") == United(9, 3, "hwc")
    assert unite(envs, "vector") is None
    assert Padded(envs["a"], United(9, 0, "hwc")).reset()[0].shape == (5, 5, 9)


@pytest.mark.parametrize(
    ("one", "other", "shows"),
    [
        (tiles(), tiles((5, 6, 2)), "images of 5 × 6 pixels"),
        (tiles(), tiles((2, 5, 5)), "images of 5 × 5 pixels and 2 channels (channels first)"),
        (tiles(), tiles(dtype=np.float32), ", float32"),
        (tiles(), tiles((7,)), "vectors of 7 numbers"),
        (words(), words((5, 5, 3)), ", in ['a']"),
    ],
)
def test_images_that_differ_in_more_than_channels_are_refused(one: Toy, other: Toy, shows: str) -> None:
    with pytest.raises(ValueError, match=r"^a shows images of 5 × 5 .* and b shows ") as error:
        unite({"a": one, "b": other})
    assert shows in str(error.value)
    assert ": the environments of a sequence need equal observations" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {"shape": (5, 5, 2), "actions": 2}
    for name, kwargs in {"Few-v0": few, "Many-v0": {"shape": (5, 5, 4)}, "First-v0": {"shape": (2, 5, 5)}}.items():
        monkeypatch.setitem(gym.registry, name, gym.envs.registration.EnvSpec(name, tiles, kwargs=kwargs))


def test_missing_channels_are_zeros_at_the_end_and_missing_actions_action_0(registered: None) -> None:
    united = unite_environments(["Few-v0", "Many-v0"])
    assert united == United(4, 3)
    env = make_env("Few-v0", united=united)
    for look in (lambda: env.reset(seed=0), lambda: env.step(1)):
        observation = look()[0]
        assert observation.dtype == np.uint8
        np.testing.assert_array_equal(observation[..., :2], env.unwrapped.shown)
        assert not observation[..., 2:].any()
    for action in range(3):
        env.step(np.int64(action))
    assert env.unwrapped.told == [1, 0, 1, 0]
    assert row_space("Few-v0", "dqn", images=True, united=united) == row_space("Many-v0", "dqn", images=True)
    assert flatten(env).picture == Picture(4, 5, 5, last=True, low=0, high=1)
    first = make_env("First-v0", united=United(3, 0))
    np.testing.assert_array_equal(first.reset(seed=0)[0][:2], first.unwrapped.shown)
    assert not first.reset(seed=0)[0][2:].any()
    assert first.action_space == spaces.Discrete(3)


def test_a_run_says_what_its_environments_are_given(registered: None) -> None:
    assert describe_united(["Few-v0", "Many-v0"], None, "auto") == (
        "the environments of the sequence are given 4 channels (zeros where they have fewer) and 3 actions (those that "
        "they lack are action 0)"
    )
    assert describe_united(["Few-v0", "Few-v0"], None, "auto") == ""
    assert describe_united(["Few-v0", "First-v0"], None, "auto") == ""  # refused where they are needed
    assert unite_environments(["CartPole-v1", "Acrobot-v1"]) is None


def test_the_games_of_continual_minatar_are_united() -> None:
    pytest.importorskip("minatar")
    assert unite_environments(SEQUENCES["continual-minatar"]) == United(10, 6)
