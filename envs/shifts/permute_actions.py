"""Permuted actions: each discrete action has the effect of another one."""

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Discrete

from .base import RowMap, Shift, Values, shifts
from .drawing import draw_permutation


@shifts.register("permute_actions")
class PermuteActions(Shift):
    """Permute the effects of discrete actions, in an order that differs from the previous task's."""

    takes_rows = True

    gradual = "episodes"

    def check(self, env: gym.Env) -> None:
        space = env.action_space
        several = isinstance(space, Discrete) and space.n > 1
        self.require(several, "two or more Discrete actions", env, space)

    def neutral(self, env: gym.Env) -> Values:
        return {"order": np.arange(env.action_space.n)}  # type: ignore[attr-defined]

    def draw(self, env: gym.Env, random: np.random.Generator, previous: Values) -> Values:
        return {"order": draw_permutation(random, previous["order"])}

    def set(self, env: gym.Env, values: Values) -> None:
        self._order = values["order"]
        self._start = env.action_space.start  # type: ignore[attr-defined]

    def action(self, action: int) -> int:
        return self._order[action - self._start] + self._start

    def actions(self, actions: np.ndarray) -> np.ndarray:
        moved: np.ndarray = self._order[np.arange(len(actions)), actions - self._start] + self._start
        return moved

    def row_map(self) -> RowMap | None:
        return None if self._start else RowMap("renumber action", self._order)
