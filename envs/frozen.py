"""Rows of a vector whose environments stand still, for members of a stack that have ended."""

from collections.abc import Sequence
from typing import Any

import numpy as np


class Frozen:
    """The rows of a vector whose environments are not stepped, and what they show.

    Attributes:
        rows: Their indices.
    """

    def __init__(self) -> None:
        self.rows: list[int] = []
        self._shown: Any = None

    def add(self, rows: Sequence[int], shown: np.ndarray) -> None:
        """Add rows that show their part of these observations of all rows from now on, (n, *shape)."""
        self.rows = sorted({*self.rows, *map(int, rows)})
        self._shown = shown[self.rows]

    def hold(self, obs: np.ndarray, reward: np.ndarray, terminated: np.ndarray, truncated: np.ndarray) -> None:
        """Write what frozen rows show into the arrays of a step."""
        if self.rows:
            obs[self.rows] = self._shown
            reward[self.rows], terminated[self.rows], truncated[self.rows] = 0.0, False, False

    def clear(self) -> None:
        self.rows = []
