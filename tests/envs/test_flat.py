"""Observations of all kinds as vectors."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.envs import Flat, Guard, Vector, flat


class Shows(gym.Env):
    """Shows random observations of a space."""

    action_space = spaces.Discrete(2)

    def __init__(self, space: spaces.Space) -> None:
        self.observation_space = space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        self.observation_space.seed(seed)
        self.shown = self.observation_space.sample()
        return self.shown, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.shown = self.observation_space.sample()
        return self.shown, 0.0, False, False, {}


KINDS = {
    "discrete": spaces.Discrete(5),
    "discrete, from 3": spaces.Discrete(5, start=3),
    "multi-discrete": spaces.MultiDiscrete([2, 3, 4]),
    "multi-discrete, 2 × 2": spaces.MultiDiscrete([[2, 3], [4, 1]]),
    "multi-binary": spaces.MultiBinary(6),
    "multi-binary, 2 × 3": spaces.MultiBinary([2, 3]),
    "numbers, 2 × 3": spaces.Box(-1, 1, (2, 3), np.float64),
    "one number": spaces.Box(-1, 1, (), np.float32),
    "integers": spaces.Box(0, 255, (128,), np.uint8),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000))
def test_a_vector_is_gymnasiums_flattening_of_the_space(kind: str, seed: int) -> None:
    space = KINDS[kind]
    inner = Shows(space)
    env = flat(inner)
    for look in (lambda: env.reset(seed=seed), lambda: env.step(0)):
        vector = look()[0]
        np.testing.assert_array_equal(vector, spaces.flatten(space, inner.shown))
        assert vector.shape == env.observation_space.shape == (spaces.flatdim(space),)
        assert vector.dtype == env.observation_space.dtype
        assert vector.dtype.kind == "f"
        assert env.observation_space.contains(vector)


def test_vectors_of_real_numbers_stay_as_they_are() -> None:
    inner = Shows(spaces.Box(-1, 1, (3,), np.float64))
    assert flat(inner) is inner


def test_discrete_numbers_that_start_elsewhere_are_counted_from_there() -> None:
    env = Flat(Shows(spaces.MultiDiscrete([2, 3], start=[5, -1])))
    np.testing.assert_array_equal(env.observation(np.array([6, 0])), [0, 1, 0, 1, 0])


def test_several_copies_step_together() -> None:
    vector = Vector(lambda: flat(Guard(gym.make("FrozenLake-v1"))), 3)
    observations = vector.reset([0, 1, 2])
    assert observations.shape == (3, 16)
    np.testing.assert_array_equal(observations.sum(1), 1)
    vector.close()


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 255, (8, 8, 3), np.uint8),
        spaces.Tuple([spaces.Discrete(2)]),
        spaces.Dict({"a": spaces.Discrete(2)}),
        spaces.Text(4),
    ],
)
def test_what_has_no_form_as_a_vector_is_refused_by_name(space: spaces.Space) -> None:
    with pytest.raises(ValueError, match="cannot be vectors: use a Box, Discrete or MultiBinary space") as error:
        flat(Shows(space))
    assert str(space) in str(error.value)
    assert "\n" not in str(error.value)
