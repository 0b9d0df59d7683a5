"""Action repeat: one decision lasts for several environment steps."""

import gymnasium as gym
import numpy as np

from .fault import Step


class Repeat(gym.Wrapper):
    """A wrapper that takes each action `times` times (at least 1), or until the episode ends, and sums the rewards.

    `info` is that of the last step. `taken` is the number of steps.
    """

    def __init__(self, env: gym.Env, times: int) -> None:
        super().__init__(env)
        self.times = self.taken = times

    def step(self, action: np.ndarray) -> Step:
        total, steps = 0.0, 0
        while True:
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            steps += 1
            if terminated or truncated or steps == self.times:
                self.taken = steps
                return observation, total, terminated, truncated, info
