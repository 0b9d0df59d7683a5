"""Environments that one agent sees in turn: channels padded with zeros, actions that an environment lacks."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from supple.agents.spaces import describe_united, row_space, unite_environments
from supple.envs import SEQUENCES, Picture, United, flatten, make_env, unite
from supple.envs.padding import Padded


class Tiles(gym.Env):
    """Images of ones, with actions that the next reward tells."""

    def __init__(self, shape: tuple[int, ...] = (5, 5, 2), actions: int | None = 3, dtype: str = "uint8") -> None:
        self.observation_space = spaces.Box(0, 1, shape, np.dtype(dtype).type)
        self.action_space = spaces.Box(-1, 1, (1,)) if actions is None else spaces.Discrete(actions)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return np.ones_like(self.observation_space.low), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        return self.reset()[0], float(np.max(action)), False, False, {}


class Words(gym.ObservationWrapper):
    """Tiles beside a vector of three numbers."""

    def __init__(self, shape: tuple[int, ...] = (5, 5, 2)) -> None:
        super().__init__(Tiles(shape))
        self.observation_space = spaces.Dict({"a": self.env.observation_space, "b": spaces.Discrete(3)})

    def observation(self, observation: Any) -> Any:
        return {"a": observation, "b": 1}


def sequence(**kinds: gym.Env) -> United | None:
    return unite(kinds)


def test_the_largest_numbers_of_channels_and_actions_are_those_of_all() -> None:
    assert sequence(a=Tiles(), b=Tiles((5, 5, 4), 2)) == United(4, 3)
    assert sequence(a=Tiles((2, 5, 5)), b=Tiles((3, 5, 5))) == United(3, 3)
    assert sequence(a=Tiles((4, 5, 5, 2)), b=Tiles((4, 5, 5, 3))) == United(3, 3)
    assert unite({"a": Tiles((5, 5, 7)), "b": Tiles((5, 5, 9))}, "hwc") == United(9, 3, "hwc")
    assert sequence(a=Tiles(actions=2), b=Tiles()) == United(2, 3)
    assert sequence(a=Words(), b=Words()) is None
    assert sequence(a=Tiles(actions=None), b=Tiles((5, 5, 4), None)) == United(4, 0)
    assert sequence(a=Tiles(), b=Tiles((5, 5, 3), None)) == United(3, 0)


def test_environments_that_are_alike_or_show_vectors_are_left_as_they_are() -> None:
    assert sequence(a=Tiles(), b=Tiles()) is None
    assert sequence(a=Tiles((5,)), b=Tiles((7,), 2)) is None
    assert unite({"a": Tiles(), "b": Tiles((5, 5, 4))}, "vector") is None


IMAGES, WHOLE = "images that differ in nothing but their channels", "equal observations if images are only a part of"


@pytest.mark.parametrize(
    ("other", "shows", "needed"),
    [
        (Tiles((5, 6, 2)), "images of 5 × 6 pixels", IMAGES),
        (Tiles((2, 5, 5)), "images of 5 × 5 pixels and 2 channels (channels first)", IMAGES),
        (Tiles((4, 5, 5, 2)), "images of 5 × 5 pixels and 8 channels", IMAGES),
        (Tiles(dtype="float32"), ", float32", IMAGES),
        (
            Tiles((7,)),
            "vectors of 7 numbers",
            "either images or vectors in all (ppo also reads images as vectors, with",
        ),
        (Words(), ", in ['a']", WHOLE),
    ],
    ids=["size", "order", "stack", "type", "vector", "parts"],
)
def test_images_that_differ_in_more_than_channels_are_refused(other: gym.Env, shows: str, needed: str) -> None:
    with pytest.raises(ValueError, match=r"^a shows images of 5 × 5 .* and b shows ") as error:
        sequence(a=Tiles(), b=other)
    assert shows in str(error.value)
    assert f": the environments of a sequence need {needed}" in str(error.value)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=WHOLE):
        sequence(a=Words(), b=Words((5, 5, 3)))


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {"shape": (5, 5, 2), "actions": 2}
    for name, kwargs in {"Few-v0": few, "Many-v0": {"shape": (5, 5, 4)}, "First-v0": {"shape": (2, 5, 5)}}.items():
        monkeypatch.setitem(gym.registry, name, gym.envs.registration.EnvSpec(name, Tiles, kwargs=kwargs))


def test_missing_channels_are_zeros_at_the_end_and_missing_actions_action_0(registered: None) -> None:
    united = unite_environments(["Few-v0", "Many-v0"])
    assert united == United(4, 3)
    env = make_env("Few-v0", united=united)
    for observation in (env.reset(seed=0)[0], env.step(1)[0]):
        assert observation.dtype == np.uint8
        np.testing.assert_array_equal(observation, np.broadcast_to([1, 1, 0, 0], (5, 5, 4)))
    assert [env.step(np.int64(action))[1] for action in range(3)] == [0, 1, 0]
    assert row_space("Few-v0", "dqn", images=True, united=united) == row_space("Many-v0", "dqn", images=True)
    assert flatten(env).picture == Picture(4, 5, 5, last=True, low=0, high=1)
    first = make_env("First-v0", united=United(3, 0))
    np.testing.assert_array_equal(first.reset(seed=0)[0].sum(axis=(1, 2)), [25, 25, 0])
    assert first.action_space == spaces.Discrete(3)
    assert Padded(Tiles((5, 5, 7)), United(9, 0, "hwc")).reset()[0].sum(axis=(0, 1)).tolist() == [*7 * [25], 0, 0]


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
