"""Vector environments with same-step autoreset, for the interaction loop.

They use the names and the SAME_STEP convention of `gymnasium.vector.VectorEnv`, but are not subclasses of it. That
interface passes final observations and episode ends in an `info` dictionary of object arrays, which would have to be
built and parsed, and a subclass that returned something else would break the wrappers made for it.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np

from supple.registry import naming

from .fault import Episode, ExplosionInfo
from .repeat import Repeat
from .shifts import find_shifted
from .shifts.base import name_of, wrappers_of


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


class Vector:
    """A vector of environments that are stepped one after the other in this thread.

    An environment is reset in the step that ends its episode. So there are no transitions whose action was ignored, as
    with the dummy step of Gymnasium's default, NEXT_STEP. These resets draw from the environment's own generator, which
    `reset` seeded: the same seeds and actions give the same trajectory. Observations have the dtype of the observation
    space (float64 for MuJoCo) and are not normalised.

    Args:
        makes: Functions that return one environment each, at least one. Their observation space is a Box or Discrete.

    Attributes:
        sharing: The copies among which the steps of `progress` are divided, for environments with a method `progress`
            of their own, which change their task by themselves; 0 for others.
    """

    sharing = 0

    def __init__(self, makes: Sequence[Callable[[], gym.Env]]) -> None:
        self.envs = [make() for make in makes]
        num_envs = self.num_envs = len(self.envs)
        self.single_observation_space = self.envs[0].observation_space
        self.single_action_space = self.envs[0].action_space
        self._shape = (num_envs, *(self.single_observation_space.shape or ()))
        self._dtype = self.single_observation_space.dtype
        self._running = Running(num_envs)
        self._repeats = [wrapper for env in self.envs for wrapper in wrappers_of(env) if isinstance(wrapper, Repeat)]
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
        for i, env in enumerate(self.envs):
            if i in self._running.frozen:
                continue
            obs[i], reward[i], terminates, truncates, info = env.step(actions[i])
            if terminates or truncates:
                terminated[i], truncated[i] = terminates, truncates
                final_info[i] = info
        taken = [repeat.taken for repeat in self._repeats] or 1
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
        for own in self.envs if self.sharing else ():
            with naming(f"{name_of(own)}: progress()", own.unwrapped):
                own.get_wrapper_attr("progress")(steps // self.sharing)

    def own_task(self) -> str:
        """Return the task that the first environment says it has."""
        return str(self.envs[0].get_wrapper_attr("task"))

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


class ConcatenatedVector:
    """Vectors one after the other as one vector, with the contract and the results of `Vector`.

    For copies that cannot be made as one vector, such as `AtariVector`s, whose sticky actions are drawn for all of
    their games.

    Args:
        parts: The vectors, at least one, which this vector closes. Their spaces are the same.
    """

    def __init__(self, parts: Sequence[Envs]) -> None:
        self.parts = parts
        self.single_observation_space: Any = parts[0].single_observation_space
        self.single_action_space: Any = parts[0].single_action_space
        ends = accumulate((part.num_envs for part in parts), initial=0)
        self._rows = [slice(*pair) for pair in pairwise(ends)]
        self.num_envs = self._rows[-1].stop

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        return np.concatenate([part.reset(seeds[rows]) for part, rows in self._both()])

    def step(self, actions: np.ndarray) -> StepResult:
        results = [part.step(actions[rows]) for part, rows in self._both()]
        obs, reward, terminated, truncated = (np.concatenate([result[i] for result in results]) for i in range(4))
        episodes = join_episodes([rows.start for rows in self._rows], [result.episodes for result in results])
        final_obs = np.concatenate([result.final_obs for result in results]) if episodes else obs
        return StepResult(obs, reward, terminated, truncated, final_obs, episodes)

    def progress(self, steps: int) -> None:
        for part in self.parts:
            part.progress(steps)

    def freeze(self, rows: Sequence[int]) -> None:
        for part, own in self._both():
            part.freeze([row - own.start for row in rows if own.start <= row < own.stop])

    def close(self) -> None:
        with ExitStack() as stack:
            for part in self.parts:
                stack.callback(part.close)

    def _both(self) -> list[tuple[Envs, slice]]:
        return list(zip(self.parts, self._rows, strict=True))
