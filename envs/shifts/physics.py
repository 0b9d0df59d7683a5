"""The base class of shifts of MuJoCo's physics: factors, log-uniform in [low, high], on part of its model."""

from abc import ABC, abstractmethod
from typing import Any

import gymnasium as gym
import numpy as np

from supple.envs.fault import read_attribute

from .base import Shift, Values
from .drawing import check_range, log_uniform


def model_of(env: gym.Env) -> Any:
    """Return the MuJoCo model of an environment, which may be modified, or None for other physics."""
    model = read_attribute(env, "model")
    return model if hasattr(model, "geom_friction") else None


class PhysicsFactor(Shift, ABC):
    """A shift that multiplies part of an environment's original model.

    Args:
        low: The smallest factor, above 0.
        high: The largest factor.
        over: Steps over which the change is gradual (see `Shift`).
        from_task: The first task that is shifted.
    """

    def __init__(self, low: float = 0.5, high: float = 2.0, *, over: int = 0, from_task: int = 1) -> None:
        super().__init__(over=over, from_task=from_task)
        self.low, self.high = check_range(low, high)
        self._own: np.ndarray | None = None

    @abstractmethod
    def part(self, model: Any) -> np.ndarray:
        """Return the part of the model that is multiplied, as a writable view."""

    def shape(self, model: Any) -> tuple[int, ...] | None:
        """Return the shape of the factors, or None for a single factor. It must broadcast to the shape of `part`."""
        return None

    def check(self, env: gym.Env) -> None:
        self.require(model_of(env) is not None, "MuJoCo physics", env)

    def neutral(self, env: gym.Env) -> Values:
        shape = self.shape(model_of(env))
        return {"factor": 1.0 if shape is None else np.ones(shape)}

    def draw(self, env: gym.Env, random: np.random.Generator, previous: Values) -> Values:
        return {"factor": log_uniform(random, self.low, self.high, self.shape(model_of(env)))}

    def set(self, env: gym.Env, values: Values) -> None:
        part = self.part(model_of(env))
        if self._own is None:
            self._own = part.copy()
        part[:] = self._own * values["factor"]
