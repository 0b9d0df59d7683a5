"""Batched steps of classic control and the nine rooms: the results of `Vector`, bit for bit, in less time.

Gymnasium's own vector environments of classic control have other seeds, and reset a copy one step after its episode.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from .array_tasks import ARRAY_TASKS
from .batched import BatchedVector
from .shifts.goal import Goal

PROOF = 40  # steps that must equal Gymnasium's before copies are stepped in one batch


class ArrayVector(BatchedVector):
    """A `BatchedVector` whose states are arrays."""

    tasks = ARRAY_TASKS
    follows = (Goal,)

    def __init__(self, envs: Sequence[gym.Env]) -> None:
        super().__init__(envs)
        self._worlds: list[Any] = [env.unwrapped for env in envs]
        self._task = ARRAY_TASKS[envs[0].spec.id](self._worlds[0])  # type: ignore[union-attr]
        self._state = np.zeros(0)

    def advance(self, actions: np.ndarray) -> tuple[np.ndarray, NDArray[np.float64], NDArray[np.bool_]]:
        before = self._state
        self._state, obs, reward, terminated = self._task.step(before, actions)
        if self._running.frozen:
            self._state[:, self._running.frozen] = before[:, self._running.frozen]
        return obs, reward, terminated

    def begin(self, rows: Sequence[int]) -> None:
        states = np.array([self._task.read(self._worlds[row]) for row in rows]).T
        if len(rows) == self.num_envs:
            self._state = states.astype(np.result_type(states, np.int64), order="C")
        else:
            self._state[:, list(rows)] = states

    def is_proven(self) -> bool:
        """Return whether `PROOF` steps equal those of the first copy, which has to be reset afterwards.

        They may differ if another version of Gymnasium has changed its code, or another version of NumPy its sines."""
        env, space = self._worlds[0], deepcopy(self.envs[0].unwrapped.action_space)
        space.seed(0)
        actions = np.array([space.sample() for _ in range(PROOF)])
        env.reset(seed=0)
        states, theirs = [], []
        for action in actions:
            states.append(self._task.read(env))
            *outcome, truncated, _ = env.step(action)
            theirs.append((self._task.read(env), *outcome))
            if outcome[-1] or truncated:
                env.reset()
        try:
            state, *ours = self._task.step(np.array(states).T.copy(), actions)
        except AttributeError:  # the environment has other constants
            return False
        return all(
            np.array_equal(np.array(expected), found)
            for expected, found in zip(zip(*theirs, strict=True), (state.T, *ours), strict=True)
        )
