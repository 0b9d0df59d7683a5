"""Normalisation of observations and rewards by running statistics."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..experiments.alike import alike

Array = NDArray[np.float64]


class RunningMeanStd:
    """The running mean and variance of vectors, by Welford's update for batches.

    They are float64, because the variance drifts in long runs with float32 sums.
    """

    def __init__(self, size: int, epsilon: float = 1e-8) -> None:
        self.mean: Array = np.zeros(size)
        self.variance: Array = np.ones(size)
        self.count = 1e-4  # a small prior weight, so that the first batch decides
        self.epsilon = epsilon

    def update(self, batch: NDArray[np.floating]) -> None:
        """Update the statistics with a batch of shape (n, size) and any floating type."""
        n = len(batch)
        # With one row, NumPy's mean and variance would take longer than all the rest.
        mean = batch[0] if n == 1 else batch.mean(0, dtype=np.float64)
        delta, total = mean - self.mean, self.count + n
        spread = self.variance * self.count
        if n > 1:
            spread += batch.var(0, dtype=np.float64) * n
        spread += delta * delta * (self.count * n / total)
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
        """Restore a state that `state_dict` returned. Raises ValueError if its vectors have another size."""
        alike(state, self.state_dict(), "running statistics")
        self.mean, self.variance, self.count = state["mean"].copy(), state["variance"].copy(), state["count"]


class RewardScale:
    """A scale for rewards: the running standard deviation of the discounted return (Stable-Baselines3's VecNormalize).

    The return starts at 0 in every episode. Gymnasium's `NormalizeReward`, which CleanRL's PPO uses for each
    environment, restarts it only after terminations. With truncated episodes its standard deviation is smaller and
    the rewards are larger: 3.8 times after 20 episodes of 1,000 steps with a reward of 1 each.
    """

    def __init__(self, num_envs: int, gamma: float) -> None:
        self.statistics = RunningMeanStd(1)
        self.returns: Array = np.zeros(num_envs)
        self.gamma = gamma

    def __call__(self, rewards: Array, done: NDArray[np.bool_], clip: float) -> Array:
        """Return the scaled rewards, (num_envs,), clipped to ±clip, and update the scale."""
        self.returns = self.returns * self.gamma + rewards
        self.statistics.update(self.returns[:, None])
        self.returns[done] = 0.0
        scaled = rewards / np.sqrt(self.statistics.variance[0] + self.statistics.epsilon)
        return np.minimum(np.maximum(scaled, -clip), clip)

    def cut(self) -> None:
        """Set the running returns to 0, because all episodes were interrupted."""
        self.returns[:] = 0.0

    def state_dict(self) -> dict[str, Any]:
        return self.statistics.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.statistics.load_state_dict(state)
