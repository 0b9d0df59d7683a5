"""Running statistics: observations and rewards brought to unit scale while the world is being seen."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..experiments.alike import alike

Array = NDArray[np.float64]


class RunningMeanStd:
    """Mean and variance of a stream of vectors, in float64 (Welford's update, a batch at a time).

    Float64 matters: with float32 sums the variance of long runs drifts.
    """

    def __init__(self, size: int, epsilon: float = 1e-8) -> None:
        self.mean: Array = np.zeros(size)
        self.variance: Array = np.ones(size)
        self.count = 1e-4  # a small prior weight, so that the first batch decides
        self.epsilon = epsilon

    def update(self, batch: NDArray[np.floating]) -> None:
        """Take in a batch of shape (n, size), of any precision."""
        n = len(batch)
        mean = batch.mean(0, dtype=np.float64)
        delta, total = mean - self.mean, self.count + n
        spread = (
            self.variance * self.count + batch.var(0, dtype=np.float64) * n + delta * delta * (self.count * n / total)
        )
        self.mean += delta * (n / total)
        self.variance = spread / total
        self.count = total

    def normalize(self, batch: Array, clip: float) -> NDArray[np.float32]:
        """Return (x − mean)/√(variance + ε), clipped to ±clip, as float32."""
        scaled = (batch - self.mean) / np.sqrt(self.variance + self.epsilon)
        return np.minimum(np.maximum(scaled, -clip), clip).astype(np.float32)

    def state_dict(self) -> dict[str, Any]:
        return {"mean": self.mean.copy(), "variance": self.variance.copy(), "count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` gave. Raises ValueError for statistics of other vectors."""
        alike(state, self.state_dict(), "running statistics")
        self.mean, self.variance, self.count = state["mean"].copy(), state["variance"].copy(), state["count"]


class RewardScale:
    """Rewards over the running standard deviation of the discounted return (VecNormalize of Stable-Baselines3).

    The return starts at 0 in every episode. Gymnasium's `NormalizeReward`, which CleanRL's PPO puts on each
    environment, starts it anew after terminations alone: where episodes are truncated it spreads less, and rewards come
    out larger, 3.8 times after 20 episodes of 1,000 steps with a reward of 1 each.
    """

    def __init__(self, num_envs: int, gamma: float) -> None:
        self.statistics = RunningMeanStd(1)
        self.returns: Array = np.zeros(num_envs)
        self.gamma = gamma

    def __call__(self, rewards: Array, done: NDArray[np.bool_], clip: float) -> Array:
        """Scale a vector of rewards, shape (num_envs,), clipped to ±clip."""
        self.returns = self.returns * self.gamma + rewards
        self.statistics.update(self.returns[:, None])
        self.returns[done] = 0.0
        scaled = rewards / np.sqrt(self.statistics.variance[0] + self.statistics.epsilon)
        return np.minimum(np.maximum(scaled, -clip), clip)

    def cut(self) -> None:
        """Forget the running returns: all episodes were broken off."""
        self.returns[:] = 0.0

    def state_dict(self) -> dict[str, Any]:
        return self.statistics.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.statistics.load_state_dict(state)
