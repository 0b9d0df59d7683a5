"""A mirrored lake: the map of FrozenLake is mirrored at the diagonal, from SH/FG to SF/HG."""

from typing import Any

import gymnasium as gym
import numpy as np

from .base import Alternating, Values, name_of, shifts


@shifts.register("mirror_map")
class MirrorMap(Alternating):
    """Mirror FrozenLake's map at its diagonal in every second task: fields below the start move to the right of it.

    Observations and actions are mirrored instead of the map, which is equivalent: down and right are exchanged, and so
    are left and up. The map must be square.

    Args:
        stay: Keep the map mirrored from the first shifted task on, instead of mirroring it back in the next one.
        over: Steps over which the change is gradual (see `Shift`).
        from_task: The first task that is shifted.
    """

    def __init__(self, stay: bool = False, *, over: int = 0, from_task: int = 1) -> None:
        super().__init__(over=over, from_task=from_task)
        self.stay = stay

    def check(self, env: gym.Env) -> None:
        shape = getattr(getattr(env.unwrapped, "desc", None), "shape", None)
        if shape is None or env.observation_space != gym.spaces.Discrete(shape[0] * shape[1]):
            raise ValueError(f"mirror_map needs FrozenLake, got {name_of(env)}")
        if shape[0] != shape[1]:
            raise ValueError(f"mirror_map needs a square map, but {name_of(env)} has {shape[0]} × {shape[1]} fields")

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
