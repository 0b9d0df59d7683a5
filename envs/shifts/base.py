"""The contract of a shift: one kind of change between the tasks of a stream, with moments, each optional."""

from collections.abc import Mapping
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from ...registry import Call, Registry

Values = dict[str, Any]
"""What a task has been given by one shift: names → numbers and arrays, whose `tolist` is plain JSON."""


class Shift:
    """One kind of change between tasks. A subclass overrides those of the moments that it needs.

    check(env)                   refuse, in one line, an environment that it does not fit
    neutral(env)                 the values of a task that is not shifted
    draw(env, random, previous)  the values of the next shifted task
    set(env, values)             take values, from now on
    begin_episode(random)        an episode begins
    observation, action, reward  the maps between environment and agent
    space(observation_space)     the space of what `observation` returns, one for all tasks

    over: steps, counted from the start of a task over all copies of the environment, in which the change comes;
        0: at once. `gradual` says how it comes: "numbers" go linearly from the previous task's values to this
        one's; where there is nothing between two values, each of the "episodes" takes the new ones with
        probability steps / over, drawn at its reset.
    from_task: the first task that is shifted.

    Raises ValueError for a negative `over` or `from_task`.
    """

    name: str = ""
    params: Mapping[str, Any]  # as given by the user, for logs
    gradual: Literal["numbers", "episodes"] = "numbers"

    def __init__(self, *, over: int = 0, from_task: int = 1) -> None:
        if over < 0:
            raise ValueError(f"over is a number of steps, 0 or more, got {over}")
        if from_task < 0:
            raise ValueError(f"from_task is a task's number, from 0, got {from_task}")
        self.over, self.from_task = over, from_task

    def check(self, env: gym.Env) -> None:
        """Raise ValueError, in one line, where the shift does not fit this environment. May reset it."""

    def neutral(self, env: gym.Env) -> Values:
        """Return the values of a task that is not shifted."""
        return {}

    def draw(self, env: gym.Env, random: np.random.Generator, previous: Values) -> Values:
        """Return the values of a shifted task, drawn from `random` alone.

        previous: the values of the task before, drawn too or neutral.
        """
        return {}

    def set(self, env: gym.Env, values: Values) -> None:
        """Take these values from now on; where they are of the environment's own, write them into it."""

    def begin_episode(self, random: np.random.Generator) -> None:
        """Begin an episode; `random` may be kept until the next one, and drawn from."""

    def observation(self, observation: Any) -> Any:
        """Return what the agent sees for what the environment showed, which stays as it is."""
        return observation

    def action(self, action: Any) -> Any:
        """Return what the environment is told for what the agent chose, which stays as it is."""
        return action

    def reward(self, reward: float, info: dict[str, Any]) -> float:
        """Return what the agent is given for a step with this reward and `info`."""
        return reward

    def space(self, observation_space: gym.Space) -> gym.Space:
        """Return the space of the observations in every task, shifted or not."""
        return observation_space

    def has(self, moment: str) -> bool:
        """Return whether this shift overrides a moment."""
        return getattr(type(self), moment) is not getattr(Shift, moment)

    def __str__(self) -> str:
        return str(Call(self.name, self.params))


shifts: Registry[type[Shift]] = Registry("shift", groups=("supple.shifts",))


def name_of(env: gym.Env) -> str:
    """Return the id of an environment, or the name of its class where it has none: for messages."""
    return env.spec.id if env.spec else type(env.unwrapped).__name__
