"""What the shifts share that have two sides: each task has the other side than the task before."""

import gymnasium as gym
import numpy as np

from .base import Shift, Values


class Alternating(Shift):
    """A shift with nothing to draw: reversed in its first task, not in the next, and so on."""

    gradual = "episodes"

    def neutral(self, env: gym.Env) -> Values:
        return {"reversed": False}

    def draw(self, env: gym.Env, random: np.random.Generator, previous: Values) -> Values:
        return {"reversed": not previous["reversed"]}

    def set(self, env: gym.Env, values: Values) -> None:
        self._reversed = values["reversed"]
