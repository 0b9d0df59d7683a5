"""The contract of a shift, a change between the tasks of a stream: a class with optional methods."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import gymnasium as gym
import numpy as np

from supple.envs.fault import text_of
from supple.registry import Call, Registry, naming, owner_of

Values = dict[str, Any]
"""The values of one shift in a task: names → numbers and arrays, whose `tolist` is plain JSON."""


class RowMap(NamedTuple):
    """A map of the rows of all copies, for steps in C.

    Attributes:
        kind: What is done to each copy (see `KINDS` in compiled.py).
        values: The values of all copies, (n, …).
        ends: The sum of the ends of what is mirrored.
    """

    kind: str
    values: np.ndarray
    ends: np.ndarray | None = None


class Shift:
    """A change between tasks. A subclass overrides the methods that it needs.

    check(env)                   raise ValueError if the shift does not fit the environment
    neutral(env)                 the values of a task that is not shifted
    draw(env, random, previous)  the values of the next shifted task
    set(env, values)             use these values from now on
    begin_episode(random)        called at the start of an episode
    observation, action, reward  the maps between environment and agent
    space(observation_space)     the space of the observations that `observation` returns, the same for all tasks

    Copies of an environment can be stepped in one batch if the class itself, and not only its base class, says that
    `takes_rows` is true. Then `set` also takes the values of several copies, one row of each value for every copy, and
    the maps of the rows of all copies are:

    begin_episodes(randoms)         called when all copies were seeded
    observations, actions, rewards  the maps; the first two are by default those of one copy

    Args:
        over: The number of steps, counted from the start of a task over all copies of the environment, over which the
            change is gradual. 0: immediate. If `gradual` is "numbers", the values change linearly from the previous
            task's to the new ones. If it is "episodes", because the values cannot be interpolated, each episode has the
            new values with probability steps / over, drawn at its reset.
        from_task: The first task that is shifted.

    Raises:
        ValueError: `over` or `from_task` is negative.
    """

    name: str = ""
    params: Mapping[str, Any]  # as the user gave them, for logs
    gradual: Literal["numbers", "episodes"] = "numbers"
    takes_rows: bool = False

    def __init__(self, *, over: int = 0, from_task: int = 1) -> None:
        if over < 0:
            raise ValueError(f"over must be 0 or more steps, got {over}")
        if from_task < 0:
            raise ValueError(f"from_task must be the index of a task, 0 or more, got {from_task}")
        self.over, self.from_task = over, from_task

    def check(self, env: gym.Env) -> None:
        """Raise ValueError if the shift does not fit this environment. May reset the environment."""

    def require(self, fits: bool, needed: str, env: gym.Env, found: object = "none") -> None:
        """Raise ValueError unless the environment fits. found: what it has in place of what is needed."""
        if not fits:
            raise ValueError(f"{self.name} needs {needed}, but {name_of(env)} has {text_of(found)}")

    def neutral(self, env: gym.Env) -> Values:
        """Return the values of a task that is not shifted."""
        return {}

    def draw(self, env: gym.Env, random: np.random.Generator, previous: Values) -> Values:
        """Return the values of a shifted task, drawn only from `random`.

        Args:
            env: The environment, which is not changed.
            random: Draws the values.
            previous: The values of the task before, which may be neutral.
        """
        return {}

    def set(self, env: gym.Env, values: Values) -> None:
        """Use these values from now on. Shifts that change the environment itself write them into it."""

    def begin_episode(self, random: np.random.Generator) -> None:
        """Begin an episode. `random` may be used until the next one begins."""

    def observation(self, observation: Any) -> Any:
        """Return the agent's observation for the environment's, without changing the argument."""
        return observation

    def action(self, action: Any) -> Any:
        """Return the environment's action for the agent's, without changing the argument."""
        return action

    def reward(self, reward: float, info: dict[str, Any]) -> float:
        """Return the agent's reward for a step with this reward and `info` of the environment."""
        return reward

    def begin_episodes(self, randoms: Sequence[np.random.Generator]) -> None:
        """Begin episodes in all copies. Their generators may be used until copies are seeded again."""

    def observations(self, observations: Any) -> Any:
        """Return `observation` of each copy for the rows of all copies, (n, …)."""
        return self.observation(observations)

    def actions(self, actions: Any) -> Any:
        """Return `action` of each copy for the rows of all copies, (n, …)."""
        return self.action(actions)

    def rewards(self, rewards: np.ndarray, info: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return `reward` of each copy, (n,). info: numbers that the task reports, (n,), which are 0 at explosions."""
        return rewards

    def row_map(self) -> RowMap | None:
        """Return what the maps of rows do, if a class that overrides this does nothing else there, else None."""
        return None

    def space(self, observation_space: gym.Space) -> gym.Space:
        """Return the space of the observations in all tasks, shifted or not."""
        return observation_space

    def has(self, moment: str) -> bool:
        """Return whether this shift overrides a method."""
        return getattr(type(self), moment) is not getattr(Shift, moment)

    def __str__(self) -> str:
        return str(Call(self.name, self.params))


def call_shift(part: Shift, method: str, *arguments: Any) -> Any:
    """Return the result of a shift's method."""
    with naming(f"shift {part.name}: {method}", part):
        return getattr(part, method)(*arguments)


def bind_method(part: Shift, method: str) -> Callable[..., Any]:
    """Return a method of a shift for every step: supple's own need no note."""
    bound: Callable[..., Any] = getattr(part, method) if not owner_of(part) else partial(call_shift, part, method)
    return bound


shifts: Registry[type[Shift]] = Registry("shift", groups=("supple.shifts",))


def wrappers_of(env: gym.Env) -> Iterator[gym.Wrapper]:
    """Yield the wrappers of an environment, the outermost first."""
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env


def name_of(env: gym.Env) -> str:
    """Return the id of an environment, or the name of its class if it has none, for messages."""
    return env.spec.id if env.spec else type(env.unwrapped).__name__


class Alternating(Shift):
    """A shift without random values: the first shifted task is reversed, the next is not, and so on."""

    gradual = "episodes"

    def neutral(self, env: gym.Env) -> Values:
        return {"reversed": False}

    def draw(self, env: gym.Env, random: np.random.Generator, previous: Values) -> Values:
        return {"reversed": not previous["reversed"]}

    def set(self, env: gym.Env, values: Values) -> None:
        self._reversed: Any = values["reversed"]  # or one of each copy, (n,)


def expand(rows: np.ndarray, dimensions: int) -> np.ndarray:
    """Return one value for each copy, (n,), as (n, 1, …, 1) with this number of dimensions."""
    return rows.reshape(-1, *(1,) * (dimensions - 1))


class RealValued(Shift):
    """A shift of real-valued observations, after which they have no bounds."""

    def check(self, env: gym.Env) -> None:
        space = env.observation_space
        real = isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating)
        self.require(real, "observations of real numbers", env, space)

    def space(self, observation_space: gym.Space) -> gym.Space:
        dtype: type[np.floating] = observation_space.dtype.type  # type: ignore[union-attr]
        return gym.spaces.Box(-np.inf, np.inf, observation_space.shape, dtype)
