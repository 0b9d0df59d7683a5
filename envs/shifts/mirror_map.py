"""A mirrored lake: the map of FrozenLake is exchanged for its image in the diagonal, SH/FG for SF/HG."""

from typing import Any

import gymnasium as gym
import numpy as np

from .alternating import Alternating
from .base import Values, name_of, shifts


@shifts.register("mirror_map")
class MirrorMap(Alternating):
    """Mirror FrozenLake's map in its diagonal in every second task: what lay below the start lies right of it.

    The agent is shown, and acts in, the mirror image of what is simulated, which is the same as a mirrored map:
    down and right change places, as do left and up. It fits square maps.

    stay: the map stays mirrored from the first shifted task on, instead of being mirrored back in the next one.
    """

    def __init__(self, stay: bool = False, *, over: int = 0, from_task: int = 1) -> None:
        super().__init__(over=over, from_task=from_task)
        self.stay = stay

    def check(self, env: gym.Env) -> None:
        shape = getattr(getattr(env.unwrapped, "desc", None), "shape", None)
        if shape is None or env.observation_space != gym.spaces.Discrete(shape[0] * shape[1]):
            raise ValueError(f"mirror_map needs FrozenLake, and {name_of(env)} is none")
        if shape[0] != shape[1]:
            raise ValueError(f"mirror_map needs a square map, that of {name_of(env)} is {shape[0]} × {shape[1]}")

    def draw(self, env: gym.Env, random: np.random.Generator, previous: Values) -> Values:
        return {"reversed": self.stay or not previous["reversed"]}

    def set(self, env: gym.Env, values: Values) -> None:
        super().set(env, values)
        self._side = env.unwrapped.desc.shape[0]  # type: ignore[attr-defined]

    def observation(self, observation: Any) -> Any:
        if not self._reversed:
            return observation
        row, column = divmod(observation, self._side)
        return column * self._side + row

    def action(self, action: Any) -> Any:
        return 3 - action if self._reversed else action  # left, down, right, up: 0 to 3
