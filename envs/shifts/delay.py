"""Delayed actions, which reach the environment some steps later."""

import copy
from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

from .base import Shift, Values, shifts


@shifts.register("delay")
class Delay(Shift):
    """Delay actions by 0 to `steps` steps, drawn uniformly for each task.

    Until the first action of an episode arrives, the environment receives 0 (Box, clipped to its bounds) or its first
    action (Discrete). Raises ValueError if `steps` < 1.
    """

    gradual = "episodes"

    def __init__(self, steps: int = 4, *, over: int = 0, from_task: int = 1) -> None:
        super().__init__(over=over, from_task=from_task)
        if steps < 1:
            raise ValueError(f"steps must be at least 1, got {steps}")
        self.steps = steps

    def check(self, env: gym.Env) -> None:
        space = env.action_space
        self.require(isinstance(space, Box | Discrete), "Box or Discrete actions", env, space)

    def neutral(self, env: gym.Env) -> Values:
        return {"steps": 0}

    def draw(self, env: gym.Env, random: np.random.Generator, previous: Values) -> Values:
        return {"steps": int(random.integers(self.steps + 1))}

    def set(self, env: gym.Env, values: Values) -> None:
        space = env.action_space
        idle: Any = np.zeros(space.shape, space.dtype).clip(space.low, space.high) if isinstance(space, Box) else None
        self._idle = [space.start if idle is None else idle] * values["steps"]  # type: ignore[attr-defined]

    def begin_episode(self, random: np.random.Generator) -> None:
        self._coming = deque(self._idle)

    def action(self, action: Any) -> Any:
        self._coming.append(copy.copy(action))  # the agent may reuse the memory of the action
        return self._coming.popleft()
