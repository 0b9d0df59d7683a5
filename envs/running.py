"""What a vector knows of its running episodes, and of environments that stand still."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .fault import Episode


class Running:
    """The returns and lengths of the running episodes of a vector, and the rows whose environments are not stepped.

    These are frozen, for members of a stack that have ended.

    Args:
        num_envs: The number of environments.

    Attributes:
        returns, lengths: Of the running episodes, (num_envs,).
        shown: The last observations of all rows, (num_envs, *shape).
        frozen: The indices of the frozen rows.
    """

    def __init__(self, num_envs: int) -> None:
        self.returns, self.lengths = np.zeros(num_envs), np.zeros(num_envs, np.int64)
        self.frozen: list[int] = []
        self.shown: Any = None
        self._still: Any = None  # what frozen rows show

    def begin(self, obs: np.ndarray) -> np.ndarray:
        """Begin episodes with these observations, which are returned. No row is frozen any more."""
        self.frozen, self.shown = [], obs
        self.returns[:], self.lengths[:] = 0.0, 0
        return obs

    def freeze(self, rows: Sequence[int]) -> None:
        """Let these rows show what they show now, until the next `begin`."""
        self.frozen = sorted({*self.frozen, *map(int, rows)})
        self._still = self.shown[self.frozen]

    def count(
        self, obs: np.ndarray, reward: np.ndarray, terminated: np.ndarray, truncated: np.ndarray, steps: Any = 1
    ) -> None:
        """Count a step, or these numbers of steps, after what frozen rows show is written into its arrays."""
        if self.frozen:
            obs[self.frozen] = self._still
            reward[self.frozen], terminated[self.frozen], truncated[self.frozen] = 0.0, False, False
        self.returns += reward
        self.lengths += steps
        self.shown = obs

    def end(self, row: int, explosion: float | str | None = None, broken_off: bool = False) -> Episode:
        """Return the episode of a row, which ends, and begin another one."""
        episode = Episode(row, float(self.returns[row]), int(self.lengths[row]), explosion, broken_off)
        self.returns[row], self.lengths[row] = 0.0, 0
        return episode
