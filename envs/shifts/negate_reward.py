"""The opposite goal: rewards become costs."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .base import Alternating, RowMap, shifts


@shifts.register("negate_reward")
class NegateReward(Alternating):
    """Negate the reward in every second task."""

    takes_rows = True

    def reward(self, reward: float, info: dict[str, Any]) -> float:
        return -reward if self._reversed else reward

    def rewards(self, rewards: np.ndarray, info: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.where(self._reversed, -rewards, rewards)

    def row_map(self) -> RowMap:
        return RowMap("negate", self._reversed)
