"""The base class of vectors whose copies are stepped in one batch, with the results of `Vector`, bit for bit.

Each copy has Gymnasium's environment, which draws the starts of its episodes. A step bypasses its Python code and that
of its wrappers, whose work is done for all copies at once: clipping of actions, shifts, the guard's checks, the time
limit, and observations as vectors.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import OrderEnforcing, TimeLimit
from numpy.typing import NDArray

from .fault import Episode, fault_of
from .flat import Flat
from .guard import ClipActions, Guard, json_reward
from .shifts.base import Shift, name_of, wrappers_of
from .shifts.rows import ShiftRows
from .shifts.several import Shifts
from .shifts.shifted import Shifted, find_shifted
from .vector import StepResult, Vector

Advanced = tuple[np.ndarray, NDArray[np.float64], NDArray[np.bool_]]  # observations, rewards, terminations: (n, …)
ORDER = (Flat, ClipActions, Shifted, Guard, TimeLimit, OrderEnforcing)  # of the wrappers, the outermost first


class BatchedVector(Vector):
    """A `Vector` that steps copies of an environment in one batch. `can_batch` must be true for them.

    The wrappers are determined from the first copy. The environments are reset but not stepped, so their wrappers do
    not see what happens between two resets.

    Attributes:
        tasks: What is known of the tasks that the class steps, by their Gymnasium ids.
        follows: The shifts that change the environment itself and that the class follows.
    """

    tasks: ClassVar[Mapping[str, Any]]
    follows: ClassVar[tuple[type[Shift], ...]]

    def __init__(self, envs: Sequence[gym.Env]) -> None:
        super().__init__([lambda env=env: env for env in envs])  # type: ignore[misc]
        self._name = name_of(envs[0])
        wrappers = {type(wrapper): wrapper for wrapper in wrappers_of(envs[0])}
        self._flat: Any = wrappers.get(Flat)
        clip: Any = wrappers.get(ClipActions)
        self._bounds = None if clip is None else (clip.action_space.low, clip.action_space.high)
        limit = envs[0].spec.max_episode_steps  # type: ignore[union-attr]
        self._limit = np.inf if limit is None else limit
        self._guards = [next(w for w in wrappers_of(env) if isinstance(w, Guard)) for env in envs]
        shifted = [wrapper for env in envs if (wrapper := find_shifted(env)) is not None]
        self._shifts = ShiftRows(shifted) if shifted else None
        self._seen: Any = None  # the last observations of the environments themselves

    # -- implemented by each class ------------------------------------------------------------------------------------

    @abstractmethod
    def advance(self, actions: np.ndarray) -> Advanced:
        """Step all copies, and return new arrays: observations (n, *shape), rewards (n,), and what terminated (n,)."""

    @abstractmethod
    def begin(self, rows: Sequence[int]) -> None:
        """Read the states with which the environments of these copies begin an episode."""

    def report(self) -> Mapping[str, np.ndarray]:
        """Return the numbers of the last step that its environments report in `info` and that shifts read, (n,)."""
        return {}

    def is_unsound(self, reward: np.ndarray) -> np.ndarray:
        """Return the copies whose rewards or simulations show an explosion, (n,), by the criteria of `Guard`."""
        return ~np.isfinite(reward)

    def looks_sound(self, reward: np.ndarray) -> bool:
        """Return whether no reward or simulation shows an explosion. It may be False although none does."""
        return isfinite(np.vdot(reward, reward))

    # -- the contract of `Vector` -------------------------------------------------------------------------------------

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        obs = super().reset(seeds)
        self._begin_all()
        return obs

    def restart(self) -> tuple[np.ndarray, list[Episode]]:
        restarted = super().restart()
        self._begin_all()
        return restarted

    def _begin_all(self) -> None:
        self._seen = np.array([guard.last_observation for guard in self._guards])
        self.begin(range(self.num_envs))
        if self._shifts is not None:
            self._shifts.begin()

    def step(self, actions: np.ndarray) -> StepResult:
        shifts, last = self._shifts, self._seen
        actions = np.asarray(actions)
        if self._bounds is not None:
            actions = np.minimum(np.maximum(actions, self._bounds[0]), self._bounds[1])
        if shifts is not None:
            actions = shifts.act(actions)
        try:
            obs, reward, terminated = self.advance(actions)
        except Exception as error:
            raise fault_of(self._name, "step()", error) from error
        truncated: NDArray[np.bool_] = self._running.lengths + 1 >= self._limit
        exploded: list[int] = []  # copies whose physics exploded, by the criteria of `Guard`
        # If the dot products are small, all entries are, and NaN fails the comparison. Nearly all steps pass.
        real = obs.dtype.kind == "f"
        if not self.looks_sound(reward) or (real and not isfinite(np.vdot(obs, obs))):
            unsound = self.is_unsound(reward)
            if real:
                unsound |= ~np.isfinite(obs.reshape(self.num_envs, -1)).all(axis=1)
            exploded = np.flatnonzero(unsound).tolist()
        explosions = {i: json_reward(reward[i]) for i in exploded}
        if exploded:  # handled as in `Guard`
            obs[exploded] = last[exploded]
            reward[exploded], terminated[exploded], truncated[exploded] = 0.0, True, False
        self._seen = obs
        if shifts is not None:
            if shifts.maps_rewards:
                info = self.report()
                for number in info.values():
                    number[exploded] = 0.0
                reward = shifts.judge(reward, info)
            obs = shifts.observe(obs)
        if self._flat is not None:
            obs = self._flat.observations(obs)
        self._running.count(obs, reward, terminated, truncated)
        return self.finish_step(obs, reward, terminated, truncated, explosions)

    def finish_step(
        self,
        obs: np.ndarray,
        reward: np.ndarray,
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        explosions: Mapping[int, float | str],
    ) -> StepResult:
        """Return the result of a step, after which the episodes that have ended begin again.

        explosions: Rows whose physics exploded → the reward."""
        ended = np.flatnonzero(terminated | truncated).tolist()
        if not ended:
            return StepResult(obs, reward, terminated, truncated, obs, [])
        final_obs, episodes = obs.copy(), []
        for i in ended:
            episodes.append(self._running.end(i, explosions.get(i)))
            obs[i] = self.envs[i].reset()[0]
            self._seen[i] = self._guards[i].last_observation
        self.begin(ended)
        if self._shifts is not None:
            self._shifts.begin_again(ended)
        return StepResult(obs, reward, terminated, truncated, final_obs, episodes)

    def progress(self, steps: int) -> None:
        if self._gradual:
            assert self._shifts is not None
            self._shifts.progress(steps)

    # -- what can be stepped ------------------------------------------------------------------------------------------

    @abstractmethod
    def is_proven(self) -> bool:
        """Return whether some steps of the first copy equal those of its environment, which must be reset afterwards.

        They may differ if another version of Gymnasium has changed its code."""

    @classmethod
    def least(cls, env_id: str) -> int | None:
        """Return the number of copies from which a batch saves time, or None if the task is not known here."""
        return cls.tasks[env_id].least if env_id in cls.tasks else None

    @classmethod
    def takes(cls, shifts: Shifts | None) -> bool:
        """Return whether all shifts take rows, or change the environment in a way that the class follows."""
        return shifts is None or all(cls._takes(part) for part in shifts.parts)

    @classmethod
    def _takes(cls, part: Shift) -> bool:
        # A class that inherits `takes_rows` may override what one copy does and not what all of them do.
        if vars(type(part)).get("takes_rows"):
            return part.has("rewards") or not part.has("reward")
        return isinstance(part, cls.follows) and not any(map(part.has, ("observation", "action", "reward")))

    @classmethod
    def can_batch(cls, envs: Sequence[gym.Env]) -> bool:
        """Return whether these copies and all of their wrappers are supported, and enough to save time.

        They may only differ in the seeds and tasks of their shifts."""
        spec, wrappers, shifted = envs[0].spec, wrapper_types(envs[0]), find_shifted(envs[0])
        if spec is None or spec.kwargs or envs[0].unwrapped.render_mode is not None:
            return False
        if (least := cls.least(spec.id)) is None or len(envs) < least:
            return False
        places = [ORDER.index(wrapper) if wrapper in ORDER else -1 for wrapper in wrappers]
        in_order = -1 not in places and places == sorted(set(places)) and Guard in wrappers
        alike = all(_signature(env) == _signature(envs[0]) for env in envs[1:])
        return in_order and alike and cls.takes(None if shifted is None else shifted.shifts)


def wrapper_types(env: gym.Env) -> list[type[gym.Wrapper]]:
    """Return the classes of the wrappers of an environment, the outermost first."""
    return [type(wrapper) for wrapper in wrappers_of(env)]


def _signature(env: gym.Env) -> tuple[object, ...]:
    """Return what copies must have in common."""
    spec, shifted = env.spec, find_shifted(env)
    assert spec is not None
    made = spec.id, spec.kwargs, spec.max_episode_steps, env.unwrapped.render_mode
    return *made, wrapper_types(env), None if shifted is None else str(shifted.shifts)
