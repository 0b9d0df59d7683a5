"""The base class of shifts that alternate: each task is reversed with respect to the task before."""

from typing import Any

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
        self._reversed: Any = values["reversed"]  # or one of each copy, (n,)


def expand(rows: np.ndarray, dimensions: int) -> np.ndarray:
    """Return one value for each copy, (n,), as (n, 1, …, 1) with this number of dimensions."""
    return rows.reshape(-1, *(1,) * (dimensions - 1))
