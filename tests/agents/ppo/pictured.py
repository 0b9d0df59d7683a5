"""Environments that show images, and what PPO on them is made with."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

KINDS: dict[str, dict[str, Any]] = {
    "Column-v0": {},
    "ColumnFirst-v0": {"last": False},
    "ColumnFloat-v0": {"dtype": np.float32},
    "ColumnAndTime-v0": {"timed": True},
}


class Column(gym.Env):
    """Images of 6 × 6 pixels and two channels with a bright column, whose number is the action that is rewarded.

    An episode has eight steps. With `timed`, observations are a Dict of the image and of the time.
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(
        self, last: bool = True, dtype: Any = np.uint8, timed: bool = False, render_mode: str | None = None
    ) -> None:
        self.render_mode = render_mode
        self.last, self.bright, self.shape = last, 255 if dtype == np.uint8 else 1, (2, 6, 6)
        shape = (6, 6, 2) if last else self.shape
        image = spaces.Box(0, self.bright, shape, dtype)
        self.timed, self.dtype = timed, dtype
        self.observation_space: spaces.Space = image
        if timed:
            self.observation_space = spaces.Dict({"at": spaces.Box(0, 1e3, (1,), np.float32), "image": image})
        self.action_space = spaces.Discrete(3)

    def _show(self) -> Any:
        image = np.zeros(self.shape, self.dtype)
        image[:, :, 2 * self.column : 2 * self.column + 2] = self.bright
        if self.last:
            image = np.moveaxis(image, 0, -1).copy()
        return {"at": np.full(1, 100 * self.t, np.float32), "image": image} if self.timed else image

    def _move(self) -> None:
        self.column = int(self.np_random.integers(3))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.t = 0
        self._move()
        return self._show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        reward = float(action == self.column)
        self.t += 1
        self._move()
        return self._show(), reward, self.t == 8, False, {}

    def render(self) -> np.ndarray:
        return np.full((16, 16, 3), 30 * self.t, np.uint8)


def register() -> None:
    for name, kwargs in KINDS.items():
        gym.register(name, Column, kwargs=kwargs)
