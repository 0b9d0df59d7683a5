"""Action repeat: one decision lasts several steps of the environment."""

from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np


class Repeat(gym.Wrapper):
    """Takes each action `times` times, or until the episode ends; the reward is the sum.

    `info` is that of the last step, and `info["repeated"]` says how many there were.
    Raises ValueError for `times` < 1.
    """

    def __init__(self, env: gym.Env, times: int) -> None:
        super().__init__(env)
        if times < 1:
            raise ValueError(f"an action is taken once at least, not {times} times")
        self.times = times

    def step(self, action: np.ndarray) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        total, steps = 0.0, 0
        while True:
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            steps += 1
            if terminated or truncated or steps == self.times:
                info["repeated"] = steps
                return observation, total, terminated, truncated, info
