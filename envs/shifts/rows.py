"""The shifts of all copies at once, as maps of rows: one for each copy, whose values may differ."""

import copy
from collections.abc import Mapping, Sequence

import numpy as np

from .base import RowMap, Shift, Values, bind_method, call_shift
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
        self.maps_rewards = bool(self._reward)

    def begin(self) -> None:
        """Use the values with which all copies were reset."""
        for stack in self._stacks:
            stack.begin()

    def begin_again(self, rows: Sequence[int]) -> None:
        """Use the values with which these copies were reset, without a seed."""
        for stack in self._stacks:
            stack.begin_again(rows)

    def row_maps(self) -> list[RowMap] | None:
        """Return what the shifts do, in the order of the text, or None if one of them does more than that."""
        maps = [stack.part.row_map() if "row_map" in vars(type(stack.part)) else None for stack in self._stacks]
        known = [each for each in maps if each is not None]
        return known if len(known) == len(maps) else None

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
        self._slides = bool(part.over) and part.gradual == "numbers"
        self._stacked: dict[str, Values] = {}  # attributes of `Shifted` → those of this shift, (n, …) each

    def begin(self) -> None:
        self._taken: list[Values] = [wrapper.values[self._name] for wrapper in self._wrappers]
        for end in ("values", "before", "after") if self._slides else ("values",):
            of_copies = [getattr(wrapper, end)[self._name] for wrapper in self._wrappers]
            self._stacked[end] = {key: np.array([one[key] for one in of_copies]) for key in of_copies[0]}
        self._set()
        call_shift(self.part, "begin_episodes", [wrapper.random for wrapper in self._wrappers])

    def begin_again(self, rows: Sequence[int]) -> None:
        changed = [row for row in rows if self._wrappers[row].values[self._name] is not self._taken[row]]
        for row in changed:
            wrapper = self._wrappers[row]
            self._taken[row] = wrapper.values[self._name]
            for end, stacked in self._stacked.items():
                for key, value in getattr(wrapper, end)[self._name].items():
                    stacked[key][row] = value
        if changed:
            self._set()

    def slide(self, steps: int) -> None:
        if self._slides and self._stacked:  # otherwise the first reset sets the values of these steps
            now = mix(self._stacked["before"], self._stacked["after"], steps, self.part.over)
            self._stacked["values"] = {key: value.copy() for key, value in now.items()}  # its rows may change alone
            self._set()

    def _set(self) -> None:
        call_shift(self.part, "set", self._wrappers[0].env, self._stacked["values"])
