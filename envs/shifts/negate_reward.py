"""The opposite goal: rewards become costs."""

from typing import Any

from .alternating import Alternating
from .base import shifts


@shifts.register("negate_reward")
class NegateReward(Alternating):
    """Negate the reward in every second task."""

    def reward(self, reward: float, info: dict[str, Any]) -> float:
        return -reward if self._reversed else reward
