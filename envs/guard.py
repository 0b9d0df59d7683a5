"""Two wrappers between an agent and a simulator: one clips actions, the other detects explosions and faults.

An unstable policy can drive MuJoCo to states that are not finite. MuJoCo then silently resets its state in the middle
of a step and continues, so that the agent would learn from an unreported jump to the start. Lillo & Cheney (2025, arXiv
2509.22562, Appendix F) count such runs as failures, so they must be detected and reported.
"""

from collections.abc import Iterator, Mapping
from math import inf, isfinite
from typing import Any

import gymnasium as gym
import numpy as np
from numpy import ndarray, vdot

from supple.registry import summary

from .fault import EnvironmentFault, ExplosionInfo, Step, fault_of, read_attribute, text_of
from .shifts.base import name_of

REWARD_FLOOR = -1e6
"""The reward of a step below which MuJoCo's physics has exploded, in the environment's units. In all v5 tasks, rewards
stay far above it without explosions and with bounded actions. Other environments may give any finite reward."""

COMPOSITE = (gym.spaces.Dict, gym.spaces.Tuple)
WHOLE_NUMBERS = (gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)


class ClipActions(gym.Wrapper):
    """A wrapper that clips actions to the bounds of the Box action space. NaN stays NaN, so that the guard detects it.

    A space of shorter numbers than float32 gets actions of its own type, which it would refuse otherwise.

    `gymnasium.wrappers.ClipAction` also widens `action_space` to infinity, which hides the bounds from agents
    that scale their actions to them, and uses `np.clip`, which takes twice as long.
    """

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        space: Any = env.action_space
        self._low, self._high = space.low, space.high
        self._short = None if np.can_cast(np.float32, space.dtype) else space.dtype

    def step(self, action: np.ndarray) -> Step:
        action = np.minimum(np.maximum(action, self._low), self._high)
        return self.env.step(action if self._short is None else action.astype(self._short))


class Guard(gym.Wrapper):
    """A wrapper that ends the episode when the physics explodes, and checks the results of `reset` and `step`.

    An explosion is a reward or an observation that is not finite (in the type of its space) or, in an environment with
    MuJoCo physics, a reward below `REWARD_FLOOR` or a simulation that diverged, so that MuJoCo reset it. MuJoCo counts
    bad positions, velocities, accelerations and controls in `data.warning` until the next reset of the environment.
    (Checking whether simulation time runs backwards would be a little cheaper, but would miss a divergence in the first
    step of an episode.)

    At an explosion, `step` returns the last finite observation, reward 0.0, terminated True, truncated False,
    and an info of class `ExplosionInfo`. Otherwise it returns what the environment returned.

    Raises EnvironmentFault if the environment raises an exception, returns observations with the wrong shape or outside
    a discrete space, numbers that a Box of whole numbers cannot hold, or first observations that are not finite. The
    parts of Dict and Tuple observations are checked in the same way. Whole numbers of another type become those of the
    Box.

    Attributes:
        last_observation: The last sound observation of the environment, which an explosion repeats.

    Cost, measured on HalfCheetah: 1.5 µs (warm caches) to 4 µs (eight environments in turn) per step of 62 µs.
    """

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.name = name_of(env)
        space = self._space = env.observation_space
        self._single = not isinstance(space, COMPOSITE)  # not a Dict or Tuple, which may have parts of real numbers
        self._real_valued = _is_real(space) or not self._single
        self._shape, self._dtype = space.shape, space.dtype
        # the square of the largest number, in float64, to which Python's own numbers would not promote a float32
        short = isinstance(space, gym.spaces.Box) and space.dtype in (np.float16, np.float32)
        self._limit = np.float64(float(np.finfo(space.dtype).max) ** 2 if short else inf)
        self._whole = isinstance(space, gym.spaces.Box) and not self._real_valued
        self._range = range(space.start, space.start + space.n) if isinstance(space, gym.spaces.Discrete) else range(0)
        self.last_observation: Any = None
        self._watch()

    def _watch(self) -> None:
        """Watch the divergences of MuJoCo's simulation, whose objects a reset may replace."""
        self._divergences: tuple[Any, ...] = ()  # MuJoCo's live counters, objects with `.number`
        data = read_attribute(self.env, "data")
        if type(data).__module__.startswith("mujoco"):
            from mujoco import mjtWarning as Kind

            kinds = Kind.mjWARN_BADQPOS, Kind.mjWARN_BADQVEL, Kind.mjWARN_BADQACC, Kind.mjWARN_BADCTRL
            self._divergences = tuple(data.warning[kind] for kind in kinds)
        self._floor = REWARD_FLOOR if self._divergences else -inf

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_divergences": ()}  # these are MuJoCo's objects, and a copy has its own

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._watch()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        try:
            observation, info = self.env.reset(seed=seed, options=options)
        except Exception as error:
            raise fault_of(self.name, "reset()", error) from error
        observation = self._require_sound("reset()", observation)
        if self._real_valued and not self._is_finite(observation):
            raise EnvironmentFault(self.name, "reset() returned an observation that is not finite")
        self.last_observation = observation
        self._watch()
        return observation, info

    def step(self, action: Any) -> Step:
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
            exploded = not (self._floor <= reward < inf) or reward == -inf  # type: ignore[operator]  # NaN has, too
        except Exception as error:
            raise fault_of(self.name, "step()", error) from error
        plain = (  # a fast check that nearly all observations pass
            observation.dtype is self._dtype and observation.shape == self._shape
            if type(observation) is ndarray
            else type(observation) is int and observation in self._range
        )
        if not plain:
            observation = self._require_sound("step()", observation)
        cause = None
        if exploded:
            cause = "reward"
        # A dot product is the cheapest reduction that preserves NaN and infinity. It may overflow for huge finite
        # numbers, so the exact check follows if the product is large.
        elif self._real_valued and not (
            (self._single and vdot(observation, observation) < self._limit) or self._is_finite(observation)
        ):
            cause = "observation"
        else:
            for counter in self._divergences:
                if counter.number:
                    cause = "simulation"
        if cause is None:
            self.last_observation = observation
            return observation, reward, terminated, truncated, info
        return self.last_observation, 0.0, True, False, ExplosionInfo(info, json_reward(reward), cause)

    def _is_finite(self, observation: Any) -> bool:
        return all(
            bool((np.abs(value) <= np.finfo(space.dtype).max).all())
            for space, value, _ in _parts(self._space, observation)
            if _is_real(space)
        )

    def close(self) -> None:
        try:
            self.env.close()
        except Exception as error:
            raise fault_of(self.name, "close()", error) from error

    def _require_sound(self, call: str, observation: Any) -> Any:
        """Return an observation, whole numbers in the type of the space. Raises EnvironmentFault if it has no place."""
        if (what := find_fault(self._space, observation)) is not None:
            raise EnvironmentFault(self.name, f"{call} returned {what}")
        return np.asarray(observation).astype(self._dtype, copy=False) if self._whole else observation


@np.errstate(invalid="ignore")  # of NaN that a Box of whole numbers cannot hold
def find_fault(space: gym.Space, observation: Any) -> str | None:
    """Return in words what an observation is instead of one of its space, or None if it is one.

    Of a Box, only the shape is looked at, and whether it can hold the numbers if they are whole."""
    for part, value, name in _parts(space, observation):
        if isinstance(part, gym.spaces.Box):
            fits = np.shape(value) == part.shape and (
                _is_real(part) or np.array_equal(np.asarray(value).astype(part.dtype), value)
            )
        else:
            fits = value in part if isinstance(part, WHOLE_NUMBERS) else not isinstance(part, COMPOSITE)
        if not fits:
            return f"{summary(value)} as observation{name}, not one of {text_of(part)}"
    return None


def _parts(space: gym.Space, value: Any, name: str = "") -> Iterator[tuple[gym.Space, Any, str]]:
    """Yield space, value and name of every part of an observation that is neither a Dict nor a Tuple.

    A Dict or Tuple is yielded itself, and not its parts, if the value lacks one of them or has another length."""
    if isinstance(space, gym.spaces.Dict) and isinstance(value, Mapping) and space.spaces.keys() <= value.keys():
        for key, part in space.spaces.items():
            yield from _parts(part, value[key], f"{name}[{key!r}]")
    elif isinstance(space, gym.spaces.Tuple) and isinstance(value, tuple | list) and len(value) == len(space.spaces):
        for i, part in enumerate(space.spaces):
            yield from _parts(part, value[i], f"{name}[{i}]")
    else:
        yield space, value, name


def _is_real(space: gym.Space) -> bool:
    return isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating)


def json_reward(reward: Any) -> float | str:
    """Return the reward of an explosion in a form that is valid in JSON: a float, or "nan", "inf", "-inf"."""
    value = float(reward)
    return value if isfinite(value) else str(value)
