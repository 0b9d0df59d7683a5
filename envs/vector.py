"""Vector environments with same-step autoreset, for the interaction loop.

They use the names and the SAME_STEP convention of `gymnasium.vector.VectorEnv`, but are not subclasses of it. That
interface passes final observations and episode ends in an `info` dictionary of object arrays, which would have to be
built and parsed, and a subclass that returned something else would break the wrappers made for it.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np

from .fault import Episode, ExplosionInfo
from .repeat import Repeat
from .running import Running
from .shifts import find_shifted
from .shifts.base import wrappers_of


class StepResult(NamedTuple):
    """One step of n environments. The arrays are new, and nothing overwrites them.

    Attributes:
        obs: The current observations, (n, *shape). After the end of an episode, the first of the next one.
        reward: The rewards, (n,) float64.
        terminated: Where an episode was terminated, (n,) bool.
        truncated: Where an episode was truncated, (n,) bool. Both may be true at once.
        final_obs: The observations before any reset, (n, *shape). This is the s′ of the transition, valid in every row.
            It is the same array as `obs` if no episode ended.
        episodes: The episodes that ended at this step.
    """

    obs: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    final_obs: np.ndarray
    episodes: list[Episode]


class Envs(Protocol):
    """The protocol of vector environments, such as `Vector` and `AtariVector`. The contract is `Vector`'s.

    The spaces are the `gymnasium.Space`s of one environment.
    """

    num_envs: int
    single_observation_space: Any
    single_action_space: Any

    def reset(self, seeds: Sequence[int]) -> np.ndarray: ...

    def step(self, actions: np.ndarray) -> StepResult: ...

    def progress(self, steps: int) -> None: ...

    def freeze(self, rows: Sequence[int]) -> None: ...

    def close(self) -> None: ...


def join_episodes(starts: Sequence[int], of_parts: Sequence[Sequence[Episode]]) -> list[Episode]:
    """Return the episodes of parts of a vector, with indices in the vector. starts: the first row of each part."""
    return [
        replace(episode, index=start + episode.index)
        for start, episodes in zip(starts, of_parts, strict=True)
        for episode in episodes
    ]


class Vector:
    """A vector of environments that are stepped one after the other in this thread.

    An environment is reset in the step that ends its episode. So there are no transitions whose action was ignored, as
    with the dummy step of Gymnasium's default, NEXT_STEP. These resets draw from the environment's own generator, which
    `reset` seeded: the same seeds and actions give the same trajectory. Observations have the dtype of the observation
    space (float64 for MuJoCo) and are not normalised.

    Args:
        makes: Functions that return one environment each, at least one. Their observation space is a Box or Discrete.
    """

    def __init__(self, makes: Sequence[Callable[[], gym.Env]]) -> None:
        self.envs = [make() for make in makes]
        num_envs = self.num_envs = len(self.envs)
        self.single_observation_space = self.envs[0].observation_space
        self.single_action_space = self.envs[0].action_space
        self._shape = (num_envs, *(self.single_observation_space.shape or ()))
        self._dtype = self.single_observation_space.dtype
        self._running = Running(num_envs)
        repeats = [next((w for w in wrappers_of(env) if isinstance(w, Repeat)), None) for env in self.envs]
        self._repeats = repeats if any(repeat is not None for repeat in repeats) else []
        shifted = [find_shifted(env) for env in self.envs]
        self._gradual = [env for env in shifted if env is not None and env.shifts.is_gradual]

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        """Reset all environments with one seed each, and return their observations, (n, *shape).

        Unfinished episodes are not reported, and no environment is frozen any more.
        """
        obs = np.empty(self._shape, self._dtype)
        for index, (env, seed) in enumerate(zip(self.envs, seeds, strict=True)):
            obs[index] = env.reset(seed=int(seed))[0]
        return self._running.begin(obs)

    def step(self, actions: np.ndarray) -> StepResult:
        """Step all environments with `actions`, (n, *action shape)."""
        actions = np.array(actions)  # an environment may change its action in place
        obs = np.empty(self._shape, self._dtype)
        reward = np.empty(self.num_envs)
        terminated = np.zeros(self.num_envs, bool)
        truncated = np.zeros(self.num_envs, bool)
        final_info: dict[int, dict[str, Any]] = {}
        taken: Any = [1] * self.num_envs if self._repeats else 1
        for i, env in enumerate(self.envs):
            if i in self._running.frozen:
                continue
            obs[i], reward[i], terminates, truncates, info = env.step(actions[i])
            if self._repeats and (repeat := self._repeats[i]) is not None:
                taken[i] = repeat.taken
            if terminates or truncates:
                terminated[i], truncated[i] = terminates, truncates
                final_info[i] = info
        self._running.count(obs, reward, terminated, truncated, taken)
        final_obs = obs.copy() if final_info else obs
        episodes = []
        for i, info in final_info.items():
            reward_before = info.reward if isinstance(info, ExplosionInfo) else None
            episodes.append(self._running.end(i, reward_before))
            obs[i] = self.envs[i].reset()[0]
        return StepResult(obs, reward, terminated, truncated, final_obs, episodes)

    def restart(self) -> tuple[np.ndarray, list[Episode]]:
        """Interrupt all episodes and begin new ones with the environments' own generators, except in frozen ones.

        Returns the observations, (n, *shape), and the interrupted episodes that had at least one step."""
        running = self._running
        rows = [i for i in range(self.num_envs) if i not in running.frozen]
        episodes = [running.end(i, broken_off=True) for i in rows if running.lengths[i]]
        running.shown = running.shown.copy()
        for i in rows:
            running.shown[i] = self.envs[i].reset()[0]
        return running.shown, episodes

    def progress(self, steps: int) -> None:
        """Set the number of steps of the task so far, over all environments. Gradual shifts depend on it."""
        for env in self._gradual:
            env.progress(steps)

    def freeze(self, rows: Sequence[int]) -> None:
        """Do not step these environments any more until the next `reset`, which has to be followed by `freeze` again.

        Their rows keep the last observations, have a reward of 0, and end no episodes.
        """
        self._running.freeze(rows)

    def close(self) -> None:
        """Close all environments, even if one of them raises. The vector cannot be used afterwards."""
        with ExitStack() as stack:
            for env in self.envs:
                stack.callback(env.close)
