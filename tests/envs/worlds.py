"""Small environments whose steps are known."""

from typing import Any

import gymnasium as gym
import numpy as np


class Toy(gym.Env):
    """An environment of samples of its space, drawn from its seed, and of rewards of 1, 2, 3, … for ten steps.

    It records its actions. `shown` is its last observation."""

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


class Counter(gym.Env):
    """Observes its own step count, which is the reward too. Episode k lasts `lengths[k mod n]` steps; an even one
    terminates, an odd one is cut off."""

    observation_space = gym.spaces.Box(0, np.inf, (1,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self, *lengths: int) -> None:
        self.lengths, self.episode, self.count = lengths, -1, 0
        self.actions: list[float] = []

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        self.episode, self.count = self.episode + 1, 0
        return np.zeros(1), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        length = self.lengths[self.episode % len(self.lengths)]
        assert self.count < length, "stepped after its end"
        self.count += 1
        self.actions.append(float(action[0]))
        done, odd = self.count == length, self.episode % 2 == 1
        info = {"steps": 1_000, "repeated": 7}  # words of the environment's own, as some have
        return np.full(1, self.count), float(self.count), done and not odd, done and odd, info
