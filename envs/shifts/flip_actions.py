"""Mirrored actions: left and right are exchanged in every second task."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

from .base import Alternating, RowMap, Values, expand, shifts


@shifts.register("flip_actions")
class FlipActions(Alternating):
    """Mirror actions in every second task: about the middle of their bounds (Box), or in reverse order (Discrete).

    Actions of a Box without bounds are negated.
    """

    takes_rows = True

    def check(self, env: gym.Env) -> None:
        space = env.action_space
        if isinstance(space, Box):
            alike = bool((np.isfinite(space.low) == np.isfinite(space.high)).all())
            self.require(alike, "two bounds or none", env, space)
        else:
            self.require(isinstance(space, Discrete), "Box or Discrete actions", env, space)

    def set(self, env: gym.Env, values: Values) -> None:
        super().set(env, values)
        space = env.action_space
        if isinstance(space, Box):
            bounded = np.isfinite(space.low)
            self._ends: Any = np.where(bounded, space.low, 0) + np.where(bounded, space.high, 0)
        else:
            self._ends = 2 * space.start + space.n - 1  # type: ignore[attr-defined]

    def action(self, action: Any) -> Any:
        return self._ends - action if self._reversed else action

    def actions(self, actions: np.ndarray) -> np.ndarray:
        return np.where(expand(self._reversed, actions.ndim), self._ends - actions, actions)

    def row_map(self) -> RowMap:
        ends = np.asarray(self._ends)
        return RowMap("mirror real" if ends.ndim else "mirror index", self._reversed, ends)
