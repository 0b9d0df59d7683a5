"""Batched steps of Gymnasium's MuJoCo tasks: the results of `Vector`, bit for bit, in less time.

Each copy has Gymnasium's environment with its model and simulation, which draws the starts of episodes. A step bypasses
its Python code. There is one call into MuJoCo per copy, without Python's lock and therefore on several threads. Then
observations, rewards, terminations, the guard's checks and the time limit are computed for all copies at once.

MuJoCo's own `rollout` is not used. It returns states without the constraint solver's warm start, which the next step
needs for equal bits, and without quantities that some rewards read (docs/reference/benchmarks.md).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import isfinite
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import OrderEnforcing, TimeLimit
from numpy.typing import NDArray

from .fault import BLAMED, EnvironmentFault, describe_error
from .guard import REWARD_FLOOR, ClipActions, Guard, json_reward
from .helper import Helper
from .make import make_env, resolve_env
from .physics_tasks import TASKS, Array, PhysicsTask
from .shifts.base import name_of, wrappers_of
from .shifts.none import Unshifted
from .shifts.physics import PhysicsFactor
from .shifts.several import Shifts
from .shifts.shifted import Shifted
from .vector import Episode, StepResult, Vector, require_one_each

PLAIN = (ClipActions, Guard, TimeLimit, OrderEnforcing)  # wrappers whose work `BatchedVector` does for all copies
PROOF = 3  # steps that must equal Gymnasium's before copies are stepped in one batch
TRIALS, TRIAL = 3, 10  # turns of each number of threads in a trial, and the steps of one
ONE, AHEAD = (1, 0), (0, 1, 2)  # one thread, and copies that the calling thread may have beyond an equal share
GAIN = 0.9  # several threads must save a tenth of the time


def side_by_side(
    make: Callable[[], gym.Env], copies: int, *, batched: bool = True, threads: int = 1, fewer: bool = False
) -> Vector:
    """Return copies of an environment, stepped in one batch if possible, else one by one, with the same results.

    Args:
        make: Returns one copy.
        copies: Number of copies, at least 1. A single one is not batched.
        batched: Whether to step them in one batch if possible.
        threads: Number of threads that step the batch. It does not change the results.
        fewer: Use as many of these threads as are fastest in a short trial.

    Raises:
        ValueError, EnvironmentFault: As `Vector` does.
    """
    one_by_one = Vector(make, copies)
    if copies == 1 or not (batched and all(map(can_batch, one_by_one.envs))):
        return one_by_one
    together = BatchedVector(one_by_one.envs, 1 if fewer else threads)
    if not together.is_proven():
        return one_by_one
    if fewer:
        together.use_fastest(threads)
    return together


def is_batched(name: str, shifts: Shifts | None = None, kwargs: Mapping[str, Any] | None = None) -> bool:
    """Return whether `side_by_side` steps copies of an environment in one batch, with these shifts and arguments.

    If the task is a candidate, two copies are made to find out. Raises ValueError if the name is unknown."""
    if resolve_env(name) not in TASKS or kwargs or not _can_batch_shifts(shifts):
        return False
    envs = side_by_side(lambda: make_env(name), 2)
    envs.close()
    return isinstance(envs, BatchedVector)


def _can_batch_shifts(shifts: Shifts | None) -> bool:
    """Return whether the shifts change only numbers in a MuJoCo model, which batched steps support."""
    return shifts is None or all(isinstance(part, PhysicsFactor | Unshifted) for part in shifts.parts)


def can_batch(env: gym.Env) -> bool:
    """Return whether `BatchedVector` supports a task and all of its wrappers."""
    for wrapper in wrappers_of(env):
        if isinstance(wrapper, Shifted) and not _can_batch_shifts(wrapper.shifts):
            return False
        if not isinstance(wrapper, Shifted) and type(wrapper) not in PLAIN:
            return False
    spec = env.spec
    return spec is not None and spec.id in TASKS and not spec.kwargs and env.unwrapped.render_mode is None


class BatchedVector(Vector):
    """A `Vector` that steps copies of an environment in one batch. `can_batch` must be true for them.

    The wrappers are determined from the first copy. The environments are reset but not stepped, so their wrappers do
    not see what happens between two resets.
    """

    def __init__(self, envs: Sequence[gym.Env], threads: int = 1) -> None:
        made = iter(envs)
        super().__init__(lambda: next(made), len(envs))
        from mujoco import mj_rnePostConstraint, mj_step, mjtWarning

        self._mj_step, self._mj_forces = mj_step, mj_rnePostConstraint
        first: Any = envs[0].unwrapped
        space: Any = self.single_action_space
        self._low, self._high = space.low, space.high
        self._name = name_of(envs[0])
        self._clips = any(isinstance(wrapper, ClipActions) for wrapper in wrappers_of(envs[0]))
        limit = envs[0].spec.max_episode_steps  # type: ignore[union-attr]
        self._limit = np.inf if limit is None else limit
        self._substeps = first.frame_skip
        self._task: PhysicsTask = TASKS[envs[0].spec.id](first)  # type: ignore[union-attr]
        simulations = [(env.unwrapped.model, env.unwrapped.data) for env in envs]  # type: ignore[attr-defined]
        self._simulations = [(model, data, data.ctrl) for model, data in simulations]
        self._views = [
            view for _, data in simulations for view in (data.qpos, data.qvel, *self._task.other_views(data))
        ]
        bad = slice(int(mjtWarning.mjWARN_BADQPOS), int(mjtWarning.mjWARN_BADCTRL) + 1)
        self._divergences = [data.warning.number[bad] for _, data in simulations]  # positions to controls
        self._helpers: list[Helper] = []
        self.use(threads)
        self._now = self._read()

    def use(self, threads: int, ahead: int = 0) -> None:
        """Step the copies on this number of threads from now on, one per copy at most.

        ahead: copies that the calling thread steps beyond an equal share. The others take some time to wake up."""
        others = min(threads, self.num_envs) - 1
        first = min(-(-self.num_envs // (others + 1)) + ahead, self.num_envs - others)
        ends = [0, first, *(first + (self.num_envs - first) * number // others for number in range(1, others + 1))]
        self._shares = [slice(*pair) for pair in pairwise(ends)]
        self._close_helpers()
        self._helpers = [Helper(partial(self._step_share, share)) for share in self._shares[1:]]

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
            self._advance(actions)  # starts the threads
            start = perf_counter()
            for _ in range(TRIAL):
                self._advance(actions)
            times[way] = min(times[way], perf_counter() - start)
        best = min(ways, key=times.__getitem__)
        self.use(*(best if times[best] < GAIN * times[ONE] else ONE))

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        obs = super().reset(seeds)
        self._now = self._read()
        return obs

    def restart(self) -> tuple[np.ndarray, list[Episode]]:
        restarted = super().restart()
        self._now = self._read()
        return restarted

    def step(self, actions: np.ndarray) -> StepResult:
        require_one_each(self.num_envs, actions, "actions")
        if self._clips:
            actions = np.minimum(np.maximum(actions, self._low), self._high)
        before = self._now
        try:
            self._advance(actions)
        except BLAMED as error:
            raise EnvironmentFault(self._name, describe_error("step()", error)) from error
        now = self._now = self._read()
        obs = self._task.observe(now)
        reward, terminated = self._task.judge(before, now, actions)
        self._lengths += 1
        truncated: NDArray[np.bool_] = self._lengths >= self._limit
        explosions: dict[int, float | str] = {}
        if exploded := self._find_explosions(obs, reward):  # handled as in `Guard`
            explosions = {i: json_reward(reward[i]) for i in exploded}
            obs[exploded] = self._task.observe(before[exploded])
            reward[exploded], terminated[exploded], truncated[exploded] = 0.0, True, False
        self._returns += reward
        ended = np.flatnonzero(terminated | truncated).tolist()
        if not ended:
            return StepResult(obs, reward, terminated, truncated, obs, [])
        final_obs, episodes = obs.copy(), []
        for i in ended:
            episodes.append(Episode(i, float(self._returns[i]), int(self._lengths[i]), explosions.get(i)))
            self._returns[i], self._lengths[i] = 0.0, 0
            obs[i] = self.envs[i].reset()[0]
        self._now = self._read()
        return StepResult(obs, reward, terminated, truncated, final_obs, episodes)

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

    def _advance(self, actions: np.ndarray) -> None:
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
        for (model, data, controls), action in zip(self._simulations[share], actions[share], strict=True):
            controls[:] = action
            self._mj_step(model, data, self._substeps)
            if self._task.needs_forces:
                self._mj_forces(model, data)

    def _read(self) -> Array:
        """Return the numbers that the task reads from the simulations, (n, width)."""
        return np.concatenate(self._views).reshape(self.num_envs, -1)

    def _find_explosions(self, obs: Array, reward: Array) -> list[int]:
        """Return the indices of the copies whose physics exploded, by the criteria of `Guard`."""
        diverged = np.concatenate(self._divergences)
        # If the dot products are small, all entries are, and NaN fails the comparison. Nearly all steps end here.
        if np.vdot(reward, reward) < REWARD_FLOOR**2 and isfinite(np.vdot(obs, obs)) and not diverged.any():
            return []
        sound = (reward >= REWARD_FLOOR) & (reward < np.inf) & np.isfinite(obs).all(axis=1)
        return np.flatnonzero(~sound | diverged.reshape(self.num_envs, -1).any(axis=1)).tolist()
