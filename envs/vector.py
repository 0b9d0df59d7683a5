"""Several environments in a row, with same-step autoreset: what the interaction loop steps.

Not a subclass of `gymnasium.vector.VectorEnv`, though it keeps its words and its SAME_STEP convention: that
interface passes final observations and episode ends through an `info` dictionary of object arrays, to be
built and taken apart again, and a subclass that returned anything else would break the wrappers made for it.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from .shifts import shifted


@dataclass(frozen=True, slots=True)
class Episode:
    """A finished episode of environment `index`: undiscounted return, length in steps, how it went wrong.

    explosion: the reward at which the physics exploded, as the guard reports it, or None for a sound episode.
    broken_off: whether the agent ended it, not the environment.
    """

    index: int
    ret: float
    length: int
    explosion: float | str | None = None
    broken_off: bool = False

    @property
    def exploded(self) -> bool:
        return self.explosion is not None


class StepResult(NamedTuple):
    """One step of n environments. The arrays are fresh: the caller may keep them, nothing overwrites them.

    obs: (n, *shape), what to act on next; for an environment that ended, the first of its next episode.
    reward: (n,) float64.
    terminated, truncated: (n,) bool; both may be true at once.
    final_obs: (n, *shape), what the actions led to, before any reset: the s′ of the transition, valid in
        every row. The same array as `obs` when nothing ended.
    episodes: the episodes that ended at this step.
    """

    obs: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    final_obs: np.ndarray
    episodes: list[Episode]


class Envs(Protocol):
    """The environments that the interaction loop steps: `Vector` and `AtariVector` are such.
    The contract is `Vector`'s.

    single_observation_space, single_action_space: the `gymnasium.Space`s of one environment.
    """

    num_envs: int
    single_observation_space: Any
    single_action_space: Any

    def reset(self, seeds: Sequence[int]) -> np.ndarray: ...

    def step(self, actions: np.ndarray) -> StepResult: ...

    def progress(self, steps: int) -> None: ...

    def close(self) -> None: ...


class Vector:
    """`num_envs` environments stepped one after the other in this thread.

    An environment that ends is reset in the same step, so no transition exists whose action was ignored (the
    dummy step of Gymnasium's default, NEXT_STEP) and none can enter a batch. These resets draw from the
    environment's own generator, which `reset` seeded: same seeds and same actions, same trajectory.
    Observations keep the dtype of the observation space (float64 for MuJoCo), unnormalised.

    Raises ValueError for `num_envs` < 1, an observation space other than Box or Discrete, and environments
    whose spaces differ.
    """

    def __init__(self, make: Callable[[], gym.Env], num_envs: int) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, got {num_envs}")
        self.envs = [make() for _ in range(num_envs)]
        self.num_envs = num_envs
        self.metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = self.envs[0].observation_space
        self.single_action_space = self.envs[0].action_space
        if not isinstance(self.single_observation_space, gym.spaces.Box | gym.spaces.Discrete):
            raise ValueError(f"observations must be a Box or Discrete, got {self.single_observation_space}")
        spaces = (self.single_observation_space, self.single_action_space)
        for index, env in enumerate(self.envs):
            if (env.observation_space, env.action_space) != spaces:
                raise ValueError(f"environment {index} has other spaces than environment 0: all must agree")
        self._shape = (num_envs, *(self.single_observation_space.shape or ()))
        self._dtype = self.single_observation_space.dtype
        self._returns = np.zeros(num_envs)
        self._lengths = np.zeros(num_envs, np.int64)
        found = [shifted(env) for env in self.envs]
        self._gradual = [env for env in found if env is not None and env.shifts.is_gradual]

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        """Seed and reset all environments, one seed each; returns their observations, (n, *shape).

        Unfinished episodes are dropped and not reported. Raises ValueError if there are not `num_envs` seeds.
        """
        if len(seeds) != self.num_envs:
            raise ValueError(f"{self.num_envs} environments need as many seeds, got {len(seeds)}")
        obs = np.empty(self._shape, self._dtype)
        for index, (env, seed) in enumerate(zip(self.envs, seeds, strict=True)):
            obs[index] = env.reset(seed=int(seed))[0]
        self._returns[:] = 0.0
        self._lengths[:] = 0
        return obs

    def step(self, actions: np.ndarray) -> StepResult:
        """Take one step of every environment; `actions` is (n, *action shape).

        Raises ValueError if there are not `num_envs` actions.
        """
        if len(actions) != self.num_envs:
            raise ValueError(f"{self.num_envs} environments need as many actions, got {len(actions)}")
        obs = np.empty(self._shape, self._dtype)
        reward = np.empty(self.num_envs)
        terminated = np.zeros(self.num_envs, bool)
        truncated = np.zeros(self.num_envs, bool)
        final_info: dict[int, dict[str, Any]] = {}
        taken = [1] * self.num_envs
        for i, env in enumerate(self.envs):
            obs[i], reward[i], terminates, truncates, info = env.step(actions[i])
            taken[i] = info.get("repeated", 1)  # more where an action is repeated
            if terminates or truncates:
                terminated[i], truncated[i] = terminates, truncates
                final_info[i] = info
        self._returns += reward
        self._lengths += taken
        final_obs = obs.copy() if final_info else obs
        episodes = []
        for i, info in final_info.items():
            episodes.append(Episode(i, float(self._returns[i]), int(self._lengths[i]), info.get("explosion")))
            self._returns[i], self._lengths[i] = 0.0, 0
            obs[i] = self.envs[i].reset()[0]
        return StepResult(obs, reward, terminated, truncated, final_obs, episodes)

    def restart(self) -> tuple[np.ndarray, list[Episode]]:
        """Break off all episodes and begin new ones, which draw from the environments' own generators.

        Returns the first observations, (n, *shape), and the episodes that were broken off after at least one step."""
        begun = [i for i in range(self.num_envs) if self._lengths[i]]
        episodes = [Episode(i, float(self._returns[i]), int(self._lengths[i]), broken_off=True) for i in begun]
        obs = np.empty(self._shape, self._dtype)
        for i, env in enumerate(self.envs):
            obs[i] = env.reset()[0]
        self._returns[:] = 0.0
        self._lengths[:] = 0
        return obs, episodes

    def progress(self, steps: int) -> None:
        """Say how many steps the task has had in all environments together, for shifts that come gradually.

        Raises ValueError for a negative number, where there are such shifts.
        """
        for env in self._gradual:
            env.progress(steps)

    def close(self) -> None:
        """Close every environment, whatever one of them raises; the vector cannot be used afterwards."""
        with ExitStack() as stack:
            for env in self.envs:
                stack.callback(env.close)
