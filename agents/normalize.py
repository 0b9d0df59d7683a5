"""Normalisation of observations and rewards by running statistics.

For a stack of agents, the statistics have the members as their first axis, and so has what they normalise. The shape
`stack` is (members,) then, and () for one agent.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.engine.storage.restoring import require_like
from supple.envs import StepResult
from supple.metrics.arrays import Array

from .stacks import by_member

EPSILON = 1e-8  # added to variances
LARGE = 128.0  # from here on, steps of float32 are 1.5e-5


class RunningMeanStd:
    """The running mean and variance of vectors, (*stack, size), by Welford's update for batches.

    They are those of all observations so far: no prior counts as one. A prior of mean 0 would add offset²·prior/n to
    the variance, which is far more than the variance itself where the offset is large (Stable-Baselines3's, of weight
    1e-4: a deviation of 171 for 5,400,000 ± 1 after 100,000 observations). Before the first observation, the mean is 0
    and the variance 1. They are float64, because the variance drifts in long runs with float32 sums.
    """

    def __init__(self, size: int, stack: tuple[int, ...] = ()) -> None:
        self.mean: Array = np.zeros((*stack, size))
        self.variance: Array = np.ones((*stack, size))
        self.count = 0.0

    def update(self, batch: NDArray[np.floating]) -> None:
        """Update the statistics with a batch of shape (*stack, n, size) and any floating type."""
        n = batch.shape[-2]
        # With one row, NumPy's mean and variance would take longer than all the rest.
        mean = batch[..., 0, :] if n == 1 else batch.mean(-2, dtype=np.float64)
        delta, total = mean - self.mean, self.count + n
        spread = self.variance * self.count
        if n > 1:
            spread += batch.var(-2, dtype=np.float64) * n
        spread += delta * delta * (self.count * n / total)
        self.mean += delta * (n / total)
        np.divide(spread, total, out=self.variance)
        self.count = total

    def normalize(self, batch: Array, clip: float) -> NDArray[np.float32]:
        """Return (x − mean)/√(variance + ε), clipped to ±clip, as float32: (*stack, n, size) → the same."""
        deviation = np.sqrt(self.variance + EPSILON)
        scaled = (batch - self.mean[..., None, :]) / deviation[..., None, :]
        return np.minimum(np.maximum(scaled, -clip), clip).astype(np.float32)

    def state_dict(self) -> dict[str, Any]:
        return {"mean": self.mean.copy(), "variance": self.variance.copy(), "count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned. Raises ValueError if its vectors have another size."""
        require_like(state, self.state_dict(), "running statistics")
        self.mean, self.variance, self.count = state["mean"].copy(), state["variance"].copy(), state["count"]


class Centre:
    """The offset of observations, which is subtracted before they become float32.

    float32 has 24 bits: of observations around 5,400,000, it keeps steps of 0.5. So every float64 entry whose value is
    above `LARGE` in magnitude after the first step is centred on it, once for all tasks. The others stay as they are,
    bit for bit: their steps are below 1e-5. What `reset` returned does not decide, because it may be unlike all others:
    zeros, or 1e9 for "nothing seen". Observations that the environment gives as float32 are not centred, because they
    have lost those bits already.
    """

    def __init__(self, size: int, stack: tuple[int, ...] = ()) -> None:
        self.offset: Array = np.zeros((*stack, size))
        self.known = self._moves = False

    def begin(self, observations: NDArray[Any]) -> None:
        """Set the offset from the first of these observations after a step, (*stack, n, size), unless it is set."""
        if not self.known:
            first = observations[..., 0, :].astype(np.float64)
            large = (np.abs(first) > LARGE) & (observations.dtype == np.float64)
            self.load_state_dict({"offset": np.where(large, first, 0.0), "known": True})

    def __call__(self, observations: NDArray[Any]) -> NDArray[Any]:
        """Return the observations, (*stack, n, size), less the offset."""
        return observations - self.offset[..., None, :] if self._moves else observations

    def centre_result(self, result: StepResult) -> StepResult:
        """Return the result of a step with centred observations, whose rows are those of all members."""
        if not self._moves:
            return result
        return result._replace(obs=self.centre_rows(result.obs), final_obs=self.centre_rows(result.final_obs))

    def centre_rows(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the observations of all members' environments, (rows, size), less the offset of their member."""
        return self(by_member(rows, self.offset.shape[:-1])).reshape(rows.shape)

    def state_dict(self) -> dict[str, Any]:
        return {"offset": self.offset.copy(), "known": self.known}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned. Raises ValueError if the offset has another size."""
        require_like(state, self.state_dict(), "the offset of observations")
        self.offset, self.known = state["offset"].copy(), state["known"]
        self._moves = bool(self.offset.any())


class RewardScale:
    """A scale for rewards: the running standard deviation of the discounted return (Stable-Baselines3's VecNormalize).

    The return starts at 0 in every episode. Gymnasium's `NormalizeReward`, which CleanRL's PPO uses for each
    environment, restarts it only after terminations. With truncated episodes its standard deviation is smaller and
    the rewards are larger: 4 times after 20 episodes of 1,000 steps with a reward of 1 each.
    """

    def __init__(self, num_envs: int, gamma: float, stack: tuple[int, ...] = ()) -> None:
        self.statistics = RunningMeanStd(1, stack)
        self.returns: Array = np.zeros((*stack, num_envs))
        self.gamma = gamma

    def __call__(self, rewards: Array, done: NDArray[np.bool_], clip: float) -> Array:
        """Return the scaled rewards, (*stack, num_envs), clipped to ±clip, and update the scale."""
        self.count(rewards, done)
        scaled = rewards / np.sqrt(self.statistics.variance + EPSILON)
        return np.minimum(np.maximum(scaled, -clip), clip)

    def count(self, rewards: NDArray[np.floating], done: NDArray[np.bool_]) -> None:
        """Update the scale with the rewards of a step, (*stack, num_envs)."""
        self.returns *= self.gamma
        self.returns += rewards
        self.statistics.update(self.returns[..., None])
        self.returns[done] = 0.0

    def reset_returns(self) -> None:
        """Set the running returns to 0, because all episodes were interrupted."""
        self.returns[:] = 0.0


class BoundedRewardScale(RewardScale):
    """A scale with which discounted returns have a standard deviation of 1 at most, and lie within ±bound:

        r / max(√(var G + ε), max|G| / bound)

    G are the discounted returns so far. Source: SimBaV2 (Lee et al. 2025, arXiv 2502.15280). In its released code the
    reward of an episode's last step is carried over into the return of the next one. Here every return starts at 0.
    """

    def __init__(self, num_envs: int, gamma: float, stack: tuple[int, ...], bound: float) -> None:
        super().__init__(num_envs, gamma, stack)
        self.bound, self.largest = bound, np.zeros((*stack, 1))

    def count(self, rewards: NDArray[np.floating], done: NDArray[np.bool_]) -> None:
        largest = np.abs(self.gamma * self.returns + rewards).max(-1, keepdims=True)
        np.maximum(self.largest, largest, out=self.largest)
        super().count(rewards, done)

    def factors(self) -> NDArray[np.float32]:
        """Return by what the rewards of each member are multiplied, (members,), or (1,) outside a stack."""
        deviation = np.sqrt(self.statistics.variance + EPSILON)
        return (1 / np.maximum(deviation, self.largest / self.bound)).astype(np.float32).ravel()

    def forget(self, members: Sequence[int]) -> None:
        """Begin again for these members of a stack."""
        own = list(members)
        self.statistics.mean[own], self.statistics.variance[own] = 0.0, 1.0
        self.returns[own], self.largest[own] = 0.0, 0.0

    def state_dict(self) -> dict[str, Any]:
        """Return the state, without the returns of running episodes."""
        return {"statistics": self.statistics.state_dict(), "largest": self.largest.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned."""
        self.statistics.load_state_dict(state["statistics"])
        self.largest = state["largest"].copy()
