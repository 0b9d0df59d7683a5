"""The base class of shifts that alternate: each task is reversed with respect to the task before."""

import gymnasium as gym
import numpy as np

from .base import Shift, Values


class Alternating(Shift):
    """A shift without random values: the first shifted task is reversed, the next is not, and so on."""

    gradual = "episodes"

    def neutral(self, env: gym.Env) -> Values:
        return {"reversed": False}

    def draw(self, env: gym.Env, random: np.random.Generator, previous: Values) -> Values:
        return {"reversed": not previous["reversed"]}

    def set(self, env: gym.Env, values: Values) -> None:
        self._reversed = values["reversed"]
