"""An artificial environment that records its actions."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest


class Toy(gym.Env):
    """An environment of samples of its space, drawn from its seed, and of rewards of 1, 2, 3, … for ten steps."""

    def __init__(self, observation_space: gym.Space | None = None, action_space: gym.Space | None = None) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (3,)) if observation_space is None else observation_space
        self.action_space = gym.spaces.Discrete(3) if action_space is None else action_space
        self.told: list[Any] = []

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.told = []
        self.shown = self.observation_space.sample()
        return self.shown, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.told.append(action)
        self.shown = self.observation_space.sample()
        return self.shown, float(len(self.told)), len(self.told) == 10, False, {}


@pytest.fixture(scope="session")
def toy() -> Callable[..., Toy]:
    return Toy
