"""The shifts of all copies at once, as maps of rows: one for each copy, whose values may differ."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .base import Shift, Values, bind_method, call_shift
from .shifted import Shifted, mix


class ShiftRows:
    """The shifts of several copies, as maps of the rows of all of them, with the results of each `Shifted`.

    The wrappers draw the values, when they are reset. The shifts that do not take rows change the environment itself.

    Args:
        wrappers: Those of the copies. They have the same shifts, but their seeds and values may differ.
    """

    def __init__(self, wrappers: Sequence[Shifted]) -> None:
        self._wrappers = wrappers
        shared = wrappers[0].parts
        self._stacks = [_Stack(part, wrappers) for part in shared if part.takes_rows]
        self._alone = any(part.over and part.gradual == "numbers" for part in shared if not part.takes_rows)
        parts = [stack.part for stack in self._stacks]
        self._observation = [bind_method(part, "observations") for part in parts if part.has("observation")]
        self._action = [bind_method(part, "actions") for part in reversed(parts) if part.has("action")]
        self._reward = [bind_method(part, "rewards") for part in parts if part.has("reward")]
        self.maps_observations, self.maps_rewards = bool(self._observation), bool(self._reward)

    def begin(self) -> None:
        """Use the values with which all copies were reset."""
        self._tasks = [wrapper.after for wrapper in self._wrappers]
        for stack in self._stacks:
            stack.begin()

    def begin_again(self, rows: Sequence[int]) -> None:
        """Use the values with which these copies were reset, without a seed."""
        if any(self._wrappers[row].after is not self._tasks[row] for row in rows):  # another task
            self.begin()
            return
        for stack in self._stacks:
            stack.begin_again(rows)

    def progress(self, steps: int) -> None:
        """Set the number of steps of the task so far (see `Shifted.progress`)."""
        for wrapper in self._wrappers:
            wrapper.progress(steps, slide=self._alone)
        for stack in self._stacks:
            stack.slide(steps)

    def observe(self, observations: np.ndarray) -> np.ndarray:
        """Return the agent's observations for the environments', (n, …)."""
        for see in self._observation:
            observations = see(observations)
        return observations

    def act(self, actions: np.ndarray) -> np.ndarray:
        """Return the environments' actions for the agent's, (n, …)."""
        for act in self._action:
            actions = act(actions)
        return actions

    def judge(self, rewards: np.ndarray, info: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the agent's rewards, (n,) (see `Shift.rewards`)."""
        for value in self._reward:
            rewards = value(rewards, info)
        return rewards


class _Stack:
    """One shift of all copies. `part` has the values of all of them."""

    def __init__(self, part: Shift, wrappers: Sequence[Shifted]) -> None:
        self.part = copy.copy(part)
        self._wrappers, self._name = wrappers, part.name
        self._ends: tuple[Values, Values] | None = None  # between which numbers slide

    def begin(self) -> None:
        self._values = self._stack([wrapper.values for wrapper in self._wrappers])
        if self.part.over and self.part.gradual == "numbers":
            before, after = ([getattr(wrapper, end) for wrapper in self._wrappers] for end in ("before", "after"))
            self._ends = self._stack(before), self._stack(after)
        self._set(self._values)
        call_shift(self.part, "begin_episodes", [wrapper.random for wrapper in self._wrappers])

    def begin_again(self, rows: Sequence[int]) -> None:
        if self.part.over and self.part.gradual == "episodes":
            for row in rows:
                for key, value in self._wrappers[row].values[self._name].items():
                    self._values[key][row] = value
            self._set(self._values)

    def slide(self, steps: int) -> None:
        if self._ends is not None:
            self._set(mix(*self._ends, steps, self.part.over))

    def _set(self, values: Values) -> None:
        call_shift(self.part, "set", self._wrappers[0].env, values)

    def _stack(self, of_copies: Sequence[Mapping[str, Values]]) -> Values:
        values: list[Values] = [one[self._name] for one in of_copies]
        stacked: dict[str, Any] = {key: np.array([one[key] for one in values]) for key in values[0]}
        return stacked
