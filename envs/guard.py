"""Two wrappers between an agent and a simulator: one clips actions, the other detects explosions and faults.

An unstable policy can drive MuJoCo to states that are not finite. MuJoCo then silently resets its state in the middle
of a step and continues, so that the agent would learn from an unreported jump to the start. Lillo & Cheney (2025, arXiv
2509.22562, Appendix F) count such runs as failures, so they must be detected and reported.
"""

import sys
from collections.abc import Iterator, Mapping
from math import inf, isfinite, prod
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from numpy import ndarray, vdot

from supple.registry import summary

from .fault import (
    EnvironmentFault,
    ExplosionInfo,
    fault_of,
    find_unfit,
    is_numbers,
    read_attribute,
    text_of,
)
from .shifts.base import name_of

REWARD_FLOOR = -1e6
"""The reward of a step below which MuJoCo's physics has exploded, in the environment's units. In all v5 tasks, rewards
stay far above it without explosions and with bounded actions. Other environments may give any finite reward."""

LARGEST = sys.float_info.max  # which an integer may exceed
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
        if not isinstance(env.action_space, gym.spaces.Box):
            raise ValueError(f"actions can only be clipped in a Box action space, got {text_of(env.action_space)}")
        self._low, self._high = env.action_space.low, env.action_space.high
        self._short = None if np.can_cast(np.float32, env.action_space.dtype) else env.action_space.dtype

    def step(self, action: np.ndarray) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
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

    Raises EnvironmentFault if the environment raises an exception or exits, or if it returns invalid values:
    observations with the wrong shape or outside a discrete space, numbers that the type of a Box of integers cannot
    hold, first observations that are not finite, a reward, `terminated` or `truncated` that is not a single number, an
    info that is not a dictionary. The parts of Dict and Tuple observations are checked in the same way. Whole numbers
    of another type become those of the Box.

    Attributes:
        last_observation: The last sound observation of the environment, which an explosion repeats.

    Cost, measured on HalfCheetah: 1.5 µs (warm caches) to 4 µs (eight environments in turn) per step of 62 µs.
    """

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.name = name_of(env)
        for what in ("observation_space", "action_space"):
            if not isinstance(space := getattr(env, what, None), gym.Space):
                raise EnvironmentFault(self.name, f"{what} is {summary(space)}, not a gymnasium.Space")
        space = self._space = env.observation_space
        self._single = not isinstance(space, COMPOSITE)  # not a Dict or Tuple, which may have parts of real numbers
        self._real_valued = _is_real(space) or not self._single
        self._shape, self._dtype = space.shape, space.dtype
        # the square of the largest number, in float64, to which Python's own numbers would not promote a float32
        self._limit = np.float64(float(np.finfo(space.dtype).max) ** 2 if _is_short(space) else inf)
        self._whole = isinstance(space, gym.spaces.Box) and not self._real_valued
        self._range = range(space.start, space.start + space.n) if isinstance(space, gym.spaces.Discrete) else range(0)
        self.last_observation: Any = None
        self._watch()

    def _watch(self) -> None:
        """Watch the divergences of MuJoCo's simulation, whose objects a reset may replace."""
        self._divergences = _divergence_counters(self.env)
        self._floor = REWARD_FLOOR if self._divergences else -inf

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_divergences": ()}  # these are MuJoCo's objects, and a copy has its own

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._watch()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        try:
            result = self.env.reset(seed=seed, options=options)
        except Exception as error:
            raise fault_of(self.name, "reset()", error) from error
        if not (isinstance(result, tuple) and len(result) == 2):
            raise self._wrong_result("reset()", result, "(observation, info)")
        observation, info = result
        self._require_sound("reset()", observation, info)
        if self._whole:
            observation = np.asarray(observation).astype(self._dtype, copy=False)
        if self._real_valued and not self._is_finite(observation):
            raise EnvironmentFault(self.name, "reset() returned an observation that is not finite")
        self.last_observation = observation
        self._watch()
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        try:
            result = self.env.step(action)
        except Exception as error:
            raise fault_of(self.name, "step()", error) from error
        try:
            observation, reward, terminated, truncated, info = result
        except (TypeError, ValueError):
            wanted = "(observation, reward, terminated, truncated, info)"
            raise self._wrong_result("step()", result, wanted) from None
        plain = (  # a fast check that nearly all observations pass
            observation.dtype is self._dtype and observation.shape == self._shape
            if type(observation) is ndarray
            else type(observation) is int and observation in self._range
        )
        if not (
            plain
            and (isinstance(reward, float) or (isinstance(reward, int) and -LARGEST <= reward <= LARGEST))
            and type(terminated) is bool
            and type(truncated) is bool
            and type(info) is dict
        ):
            self._require_sound("step()", observation, info)
            self._require_numbers(reward, terminated, truncated)
            if self._whole:
                observation = np.asarray(observation).astype(self._dtype, copy=False)
        cause = None
        if not (self._floor <= reward < inf) or reward == -inf:  # type: ignore[operator]  # so that NaN fails it
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
        under_way = sys.exception()  # takes precedence over errors of close()
        try:
            self.env.close()
        except Exception as error:
            if under_way is None:
                raise fault_of(self.name, "close()", error) from error

    def _require_sound(self, call: str, observation: Any, info: Any) -> None:
        if (what := find_fault(self._space, observation)) is not None:
            raise EnvironmentFault(self.name, f"{call} returned {what}")
        if not isinstance(info, dict):
            raise self._wrong_part(call, info, "info", "a dictionary")

    def _require_numbers(self, reward: Any, terminated: Any, truncated: Any) -> None:
        if not is_numbers(reward, ()):
            raise self._wrong_part("step()", reward, "reward", "a number")
        for what, value in (("terminated", terminated), ("truncated", truncated)):
            if not is_numbers(value, ()):
                raise self._wrong_part("step()", value, what, "True or False")

    def _wrong_part(self, call: str, value: Any, part: str, wanted: str) -> EnvironmentFault:
        return EnvironmentFault(self.name, f"{call} returned {summary(value)} as {part}, not {wanted}")

    def _wrong_result(self, call: str, result: Any, wanted: str) -> EnvironmentFault:
        description = f"{len(result)} values" if isinstance(result, tuple) else summary(result)
        return EnvironmentFault(self.name, f"{call} returned {description}, not {wanted}")


def find_fault(space: gym.Space, observation: Any) -> str | None:
    """Return in words what an observation is instead of one of its space, or None if it is one.

    Numbers beyond the bounds of a Box, and those of another type that the Box can hold, are not objected to."""
    for part_space, value, name in _parts(space, observation):
        part = f"observation{name}"
        if isinstance(part_space, gym.spaces.Box):
            if isinstance(value, ndarray) and value.shape != part_space.shape:
                return f"an {part} of shape {value.shape}, not {part_space.shape}"
            if is_numbers(value, part_space.shape):
                if _is_real(part_space) or (number := find_unfit(value, part_space.dtype)) is None:
                    continue
                return f"{number} as a number of {part}, which {part_space.dtype} cannot hold"
            wanted = f"{prod(part_space.shape)} numbers"
        else:
            sound = not isinstance(part_space, WHOLE_NUMBERS) or _is_in(part_space, value)
            if sound and not isinstance(part_space, COMPOSITE):
                continue
            wanted = f"one of {text_of(part_space)}"  # which takes ten times as long as all of the above
        return f"{summary(value)} as {part}, not {wanted}"
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


def _is_short(space: gym.Space) -> bool:
    return isinstance(space, gym.spaces.Box) and space.dtype in (np.float16, np.float32)


def _is_in(space: gym.Space, value: Any) -> bool:
    try:
        return value in space
    except (TypeError, ValueError):  # of values that cannot be compared with numbers
        return False


def json_reward(reward: Any) -> float | str:
    """Return the reward of an explosion in a form that is valid in JSON: a float, or "nan", "inf", "-inf"."""
    value = float(reward)
    return value if isfinite(value) else str(value)


def _divergence_counters(env: gym.Env) -> tuple[Any, ...]:
    """Return MuJoCo's live counters of divergence (objects with `.number`), or () for other physics."""
    data = read_attribute(env, "data")
    if not type(data).__module__.startswith("mujoco"):
        return ()
    from mujoco import mjtWarning

    warnings = data.warning

    kinds = (
        mjtWarning.mjWARN_BADQPOS,
        mjtWarning.mjWARN_BADQVEL,
        mjtWarning.mjWARN_BADQACC,
        mjtWarning.mjWARN_BADCTRL,
    )
    return tuple(warnings[kind] for kind in kinds)
