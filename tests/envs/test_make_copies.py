"""Copies of an environment that have state in common are found."""

import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from supple.envs.make import copies_interfere


class Walk(gym.Env):
    """A walk whose steps come from the environment's generator (own), NumPy's (global), or go on in all copies."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gym.spaces.Discrete(2)
    together = 0.0

    def __init__(self, kind: str = "own") -> None:
        self.kind = kind

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 0.0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place += self.np_random.random() if self.kind == "own" else 0.0
        self.place += np.random.random() if self.kind == "global" else 0.0  # noqa: NPY002
        if self.kind == "together":
            Walk.together += 1
            self.place = Walk.together
        return np.array([self.place], np.float32), self.place, False, False, {}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gym.registry, "Walk-v0", gym.envs.registration.EnvSpec("Walk-v0", Walk))


def test_copies_with_a_generator_and_variables_of_their_own_are_independent() -> None:
    assert not copies_interfere("Walk-v0")
    assert not copies_interfere("CartPole-v1")


@pytest.mark.parametrize("kind", ["global", "together"])
def test_copies_with_a_common_variable_or_generator_are_not(kind: str) -> None:
    assert copies_interfere("Walk-v0", json.dumps({"kind": kind}))
