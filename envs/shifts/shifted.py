"""A Gymnasium wrapper that applies shifts to any environment."""

import copy
from typing import Any

import gymnasium as gym
import numpy as np

from supple.envs.fault import Step

from .base import Shift, Values, bind_method, call_shift, wrappers_of
from .several import Shifts, parse_shifts


class Shifted(gym.Wrapper, gym.utils.RecordConstructorArgs):
    """An environment in one task of a stream whose tasks differ by shifts.

    Observations and rewards pass through the shifts in the order of the text, actions in reverse order, because the
    first shift is closest to the environment. Observations keep their dtype. The observation space covers all tasks.

    Args:
        env: Any environment that the shifts fit. Some shifts reset it to check this (`direction`).
        shifts: A text, or the result of `parse_shifts`.
        seed: The seed of the tasks' values, which all copies with this seed share. Random numbers that differ between
            episodes (noise, and which episodes a gradual change affects) are drawn from the seed given to `reset`.
        task: The index of the task, from 0.

    Attributes:
        parts: The shifts, with this wrapper's values.
        values: The values in use, by the names of the shifts.
        before, after: Those of the task before and of this task.
        random: Draws the random numbers that differ between episodes.

    Raises:
        ValueError: A shift does not fit.
    """

    def __init__(self, env: gym.Env, shifts: Shifts | str, seed: int = 0, task: int = 0) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, shifts=str(shifts), seed=seed, task=task)  # for `env.spec`
        gym.Wrapper.__init__(self, env)
        self.shifts = parse_shifts(shifts) if isinstance(shifts, str) else shifts
        self.shifts.check(env)
        self.seed = seed
        self.parts = copy.deepcopy(self.shifts.parts)  # each wrapper has its own state, from the constructor on
        self._sliding = [part for part in self.parts if part.over and part.gradual == "numbers"]
        self._observation = [bind_method(part, "observation") for part in self.parts if part.has("observation")]
        self._action = [bind_method(part, "action") for part in reversed(self.parts) if part.has("action")]
        self._reward = [bind_method(part, "reward") for part in self.parts if part.has("reward")]
        for part in self.parts:
            if part.has("space"):
                self.observation_space = call_shift(part, "space", self.observation_space)
        self.random = _generator(None)
        self.values: dict[str, Values] = {}  # those in use, by the names of the shifts
        self._task = -1
        self.after = self.shifts.draw(env, seed, -1)
        self.task = task

    @property
    def task(self) -> int:
        """The index of the task. A new value takes effect at the next reset, as the first step of the task."""
        return self._task

    @task.setter
    def task(self, task: int) -> None:
        following = task == self._task + 1
        self.before = self.after if following else self.shifts.draw(self.env, self.seed, task - 1)
        self.after = self.shifts.draw_next(self.env, self.seed, task, self.before)
        self._task, self._steps, self._entered = task, 0, False

    def progress(self, steps: int, *, slide: bool = True) -> None:
        """Set the number of steps of the task so far, over all copies, on which gradual changes depend.

        Numbers change at once, other values with the next episodes.

        Args:
            steps: The number of steps.
            slide: Whether numbers change here, and not in the rows of all copies (see `ShiftRows`).
        """
        self._steps = steps
        if slide and self._entered:
            for part in self._sliding:
                call_shift(part, "set", self.env, self._values(part))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.random = _generator(seed)
        for part in self.parts:
            values = self.values[part.name] = self._values(part)
            call_shift(part, "set", self.env, values)
            call_shift(part, "begin_episode", self.random)
        self._entered = True
        observation, info = self.env.reset(seed=seed, options=options)
        for see in self._observation:
            observation = see(observation)
        return observation, info

    def step(self, action: Any) -> Step:
        for act in self._action:
            action = act(action)
        observation, reward, terminated, truncated, info = self.env.step(action)
        for see in self._observation:
            observation = see(observation)
        for value in self._reward:
            reward = value(reward, info)
        return observation, reward, terminated, truncated, info

    def _values(self, part: Shift) -> Values:
        """Return the values at this moment, or for the episode that begins."""
        before, after = self.before[part.name], self.after[part.name]
        if part.gradual == "episodes" and self._steps < part.over:
            return after if self.random.random() < self._steps / part.over else before
        return mix(before, after, self._steps, part.over)


def mix(before: Values, after: Values, steps: int, over: int) -> Values:
    """Return the numbers of a gradual change after some steps: between those before it and those after it."""
    if steps >= over:
        return after
    share = steps / over
    return {name: (1.0 - share) * before[name] + share * after[name] for name in after}


def find_shifted(env: gym.Env) -> Shifted | None:
    """Return the wrapper with the shifts of this environment, or None if it has none."""
    return next((wrapper for wrapper in wrappers_of(env) if isinstance(wrapper, Shifted)), None)


def _generator(seed: int | None) -> np.random.Generator:
    # The key makes it independent of the environment's own generator, which has the same seed.
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(1,))))
