"""Another goal: as in nine rooms (Chung et al. 2024), it is drawn for each task and stays hidden."""

from typing import Any

import gymnasium as gym
import numpy as np

from .base import Shift, Values, name_of, shifts


@shifts.register("goal")
class Goal(Shift):
    """Move the goal to a place drawn for each task, uniform among those that the environment allows.

    It fits what has a `goal`, a number that may be set, and `goals`, the numbers that it may be. Task 0 has the
    environment's own, `None` among the values, unless `from_task=0`.
    """

    gradual = "episodes"
    _own: int | None = None  # once another one was set

    def check(self, env: gym.Env) -> None:
        if not (hasattr(env.unwrapped, "goal") and hasattr(env.unwrapped, "goals")):
            raise ValueError(f"goal needs an environment with a goal to set (ninerooms), and {name_of(env)} has none")

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
        if world.goal != wanted:  # what follows from a goal is computed when it is set
            world.goal = wanted
