"""A hidden goal that is drawn for each task, as in nine rooms (Chung et al. 2024)."""

from typing import Any

import gymnasium as gym
import numpy as np

from .base import Shift, Values, shifts


@shifts.register("goal")
class Goal(Shift):
    """Move the goal to a place drawn for each task, uniform over those that the environment allows.

    The environment must have a settable number `goal` and its possible values, `goals`. Task 0 has the environment's
    original goal, which the values record as None, unless `from_task=0`.
    """

    gradual = "episodes"
    _own: int | None = None  # the original goal, known once another one was set

    def check(self, env: gym.Env) -> None:
        self.require(hasattr(env.unwrapped, "goals"), "an environment with a settable goal (ninerooms)", env)

    def neutral(self, env: gym.Env) -> Values:
        return {"goal": None}

    def draw(self, env: gym.Env, random: np.random.Generator, previous: Values) -> Values:
        goals = env.unwrapped.goals  # type: ignore[attr-defined]
        return {"goal": int(goals[random.integers(len(goals))])}

    def set(self, env: gym.Env, values: Values) -> None:
        world: Any = env.unwrapped
        if self._own is None:
            self._own = world.goal
        wanted = self._own if values["goal"] is None else values["goal"]
        if world.goal != wanted:  # setting a goal recomputes the rewards
            world.goal = wanted
