"""Batched steps of classic control and the nine rooms: the results of `Vector`, bit for bit, in less time.

Gymnasium's own vector environments of classic control have other seeds, and reset a copy one step after its episode.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np

from .array_tasks import ARRAY_TASKS
from .batched import Advanced, BatchedVector
from .compiled import MOST_MAPS, CompiledRows, is_exact
from .shifts.goal import Goal
from .vector import StepResult

PROOF = 40  # steps that must equal Gymnasium's before copies are stepped in one batch


class ArrayVector(BatchedVector):
    """A `BatchedVector` whose states are arrays.

    Attributes:
        compiled: The steps in C of the running episodes; None where NumPy takes the steps.
    """

    tasks = ARRAY_TASKS
    follows = (Goal,)

    def __init__(self, envs: Sequence[gym.Env]) -> None:
        super().__init__(envs)
        self._worlds: list[Any] = [env.unwrapped for env in envs]
        self._task = ARRAY_TASKS[envs[0].spec.id](self._worlds[0])  # type: ignore[union-attr]
        self._state = np.zeros(0)
        self.compiled: CompiledRows | None = None

    def _begin_all(self) -> None:
        super()._begin_all()
        self.compiled = self._compile()

    def _compile(self) -> CompiledRows | None:
        """Return the steps in C of the episodes that have begun, or None where there are none for the shifts."""
        maps = [] if self._shifts is None else self._shifts.row_maps()
        shape = self.envs[0].observation_space.shape
        numpys = self._gradual or self._running.frozen  # rows may be frozen when the others are restarted
        if maps is None or len(maps) > MOST_MAPS or numpys or not shape or not is_exact(self._name):
            return None
        return CompiledRows(self._task, self._state, self._running, self._limit, self._bounds, maps)

    def step(self, actions: np.ndarray) -> StepResult:
        """Step all copies in C if all results are finite, else with NumPy."""
        if self.compiled is None or (taken := self.compiled.step(np.asarray(actions))) is None:
            return super().step(actions)
        obs, reward, ending = taken
        self.show(obs)
        if not ending:
            return StepResult(obs, reward, np.zeros(len(obs), bool), np.zeros(len(obs), bool), obs, [])
        truncated = self._running.lengths >= self._limit
        return self.finish_step(obs, reward, self.compiled.terminated.copy(), truncated, {})

    def show(self, obs: np.ndarray) -> None:
        """Note what the copies show after steps in C."""
        assert self.compiled is not None
        self._seen, self._running.shown = self.compiled.last, obs

    def freeze(self, rows: Sequence[int]) -> None:
        super().freeze(rows)
        self.compiled = None

    def advance(self, actions: np.ndarray) -> Advanced:
        now, obs, reward, terminated = self._task.step(self._state, actions)
        moving = np.ones(self.num_envs, bool)
        moving[self._running.frozen] = False
        np.copyto(self._state, now, where=moving)
        return obs, reward, terminated

    def begin(self, rows: Sequence[int]) -> None:
        states = np.array([self._task.read(self._worlds[row]) for row in rows]).T
        if not self._state.size:
            self._state = np.empty((len(states), self.num_envs), np.result_type(states, np.int64))
        self._state[:, list(rows)] = states  # in place, for steps in C

    @classmethod
    def least(cls, env_id: str) -> int | None:
        return 1 if env_id in cls.tasks and is_exact(env_id) else super().least(env_id)

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
