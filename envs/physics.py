"""Batched steps of Gymnasium's MuJoCo tasks: the results of `Vector`, bit for bit, in less time.

Each copy has Gymnasium's environment with its model and simulation. There is one call into MuJoCo per copy, without
Python's lock and therefore on several threads. Then observations, rewards and terminations are computed for all copies
at once.

MuJoCo's own `rollout` is not used. It returns states without the constraint solver's warm start, which the next step
needs for equal bits, and without quantities that some rewards read.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np

from .batched import Advanced, BatchedVector
from .guard import REWARD_FLOOR
from .physics_tasks import TASKS, Array, PhysicsTask
from .shifts.direction import FORWARD
from .shifts.physics import PhysicsFactor

PROOF = 3  # steps that must equal Gymnasium's before copies are stepped in one batch
TRIALS, TRIAL = 3, 10  # turns of each number of threads in a trial, and the steps of one
ONE, AHEAD = (1, 0), (0, 1, 2)  # one thread, and copies that the calling thread may have beyond an equal share
GAIN = 0.9  # several threads must save a tenth of the time


class PhysicsVector(BatchedVector):
    """A `BatchedVector` of MuJoCo simulations."""

    tasks = TASKS
    follows = (PhysicsFactor,)

    def __init__(self, envs: Sequence[gym.Env], threads: int = 1) -> None:
        super().__init__(envs)
        from mujoco import mj_rnePostConstraint, mj_step, mjtWarning

        self._mj_step, self._mj_forces = mj_step, mj_rnePostConstraint
        first: Any = envs[0].unwrapped
        space: Any = self.single_action_space
        self._low, self._high = space.low, space.high
        self._substeps = first.frame_skip
        self._task: PhysicsTask = TASKS[envs[0].spec.id](first)  # type: ignore[union-attr]
        simulations = [(env.unwrapped.model, env.unwrapped.data) for env in envs]  # type: ignore[attr-defined]
        self._simulations = [(model, data, data.ctrl) for model, data in simulations]
        self._views = [
            view for _, data in simulations for view in (data.qpos, data.qvel, *self._task.other_views(data))
        ]
        bad = slice(int(mjtWarning.mjWARN_BADQPOS), int(mjtWarning.mjWARN_BADCTRL) + 1)
        self._divergences = [data.warning.number[bad] for _, data in simulations]  # positions to controls
        self._helpers: list[WorkerThread] = []
        self.use(threads)
        self._before = self._now = self._read()

    def use(self, threads: int, ahead: int = 0) -> None:
        """Step the copies on this number of threads from now on, one per copy at most.

        ahead: copies that the calling thread steps beyond an equal share. The others take some time to wake up."""
        others = min(threads, self.num_envs) - 1
        first = min(-(-self.num_envs // (others + 1)) + ahead, self.num_envs - others)
        ends = [0, first, *(first + (self.num_envs - first) * number // others for number in range(1, others + 1))]
        self._shares = [slice(*pair) for pair in pairwise(ends)]
        self._close_helpers()
        self._helpers = [WorkerThread(partial(self._step_share, share)) for share in self._shares[1:]]

    def use_fastest(self, most: int) -> None:
        """Step the copies on the number of threads, up to `most`, that is fastest in a trial of about 0.1 s.

        The other work on this machine counts too. The copies must be reset afterwards."""
        most = min(most, self.num_envs)
        if most == 1:
            return
        counts = [2**power for power in range(1, most.bit_length()) if 2**power < most] + [most]
        ways = [ONE, *((threads, ahead) for threads in counts for ahead in AHEAD)]
        actions, times = np.zeros((self.num_envs, *self._low.shape)), dict.fromkeys(ways, np.inf)
        for way in TRIALS * ways:
            self.use(*way)
            self._step_all(actions)  # starts the threads
            start = perf_counter()
            for _ in range(TRIAL):
                self._step_all(actions)
            times[way] = min(times[way], perf_counter() - start)
        best = min(ways, key=times.__getitem__)
        self.use(*(best if times[best] < GAIN * times[ONE] else ONE))

    def begin(self, rows: Sequence[int]) -> None:
        self._now = self._read()

    def advance(self, actions: np.ndarray) -> Advanced:
        self._step_all(actions)
        before, now = self._before, self._now = self._now, self._read()
        reward, terminated = self._task.judge(before, now, actions)
        return self._task.observe(now), reward, terminated

    def report(self) -> Mapping[str, np.ndarray]:
        return {FORWARD: self._task.forward(self._before, self._now)}

    def is_unsound(self, reward: np.ndarray) -> np.ndarray:
        diverged = np.concatenate(self._divergences).reshape(self.num_envs, -1).any(axis=1)
        return ~((reward >= REWARD_FLOOR) & (reward < np.inf)) | diverged

    def looks_sound(self, reward: np.ndarray) -> bool:
        diverged = np.concatenate(self._divergences).any()
        return bool(np.vdot(reward, reward) < REWARD_FLOOR**2) and not diverged

    def close(self) -> None:
        self._close_helpers()
        super().close()

    def is_proven(self) -> bool:
        """Return whether `PROOF` steps of the first copy equal those of its environment.

        They may differ if another version of Gymnasium has changed its code. The first copy must be reset afterwards.
        """
        import mujoco

        env: Any = self.envs[0].unwrapped
        model, data, _ = self._simulations[0]
        state = np.empty(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_INTEGRATION))
        random, shape = np.random.default_rng(0), (self.num_envs, model.nu)
        env.reset(seed=0)
        for _ in range(PROOF):
            actions = random.uniform(self._low, self._high, shape).astype(np.float32)
            mujoco.mj_getState(model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
            before = self._read()
            obs, reward, terminated, _, _ = env.step(actions[0])
            theirs = self._read()[0]
            mujoco.mj_setState(model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
            self._step_share(slice(1), actions)
            now = self._read()
            rewards, ends = self._task.judge(before, now, actions)
            ours = (now[0], self._task.observe(now)[0], rewards[0], ends[0])
            if not all(map(np.array_equal, ours, (theirs, obs, reward, terminated))):
                return False
        return True

    def _step_all(self, actions: np.ndarray) -> None:
        """Step the physics of all copies."""
        for helper in self._helpers:
            helper.begin(actions)
        try:
            self._step_share(self._shares[0], actions)
        finally:
            errors = [helper.end() for helper in self._helpers]
        for error in filter(None, errors):
            raise error

    def _close_helpers(self) -> None:
        for helper in self._helpers:
            helper.close()
        self._helpers = []

    def _step_share(self, share: slice, actions: np.ndarray) -> None:
        frozen = self._running.frozen
        for i, (model, data, controls) in enumerate(self._simulations[share], share.start or 0):
            if i in frozen:
                continue
            controls[:] = actions[i]
            self._mj_step(model, data, self._substeps)
            if self._task.needs_forces:
                self._mj_forces(model, data)

    def _read(self) -> Array:
        """Return the numbers that the task reads from the simulations, (n, width)."""
        return np.concatenate(self._views).reshape(self.num_envs, -1)


class WorkerThread:
    """A thread that steps a share of the copies, again and again. An executor would take twice as long to hand over.

    The thread starts at the first call, so it inherits the treatment of denormal numbers from the calling thread.
    """

    def __init__(self, take: Callable[[np.ndarray], None]) -> None:
        self._take = take
        self._thread: Thread | None = None
        self._todo: SimpleQueue[np.ndarray | None] = SimpleQueue()
        self._done: SimpleQueue[Exception | None] = SimpleQueue()

    def begin(self, actions: np.ndarray) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._work, daemon=True)
            self._thread.start()
        self._todo.put(actions)

    def end(self) -> Exception | None:
        """Wait until the share is stepped, and return the error that prevented it, if any."""
        return self._done.get()

    def close(self) -> None:
        self._todo.put(None)
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while (actions := self._todo.get()) is not None:
            try:
                self._take(actions)
            except Exception as error:
                self._done.put(error)
            else:
                self._done.put(None)
