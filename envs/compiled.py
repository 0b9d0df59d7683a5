"""Steps of array tasks in C (classic.c): the results of NumPy, bit for bit, in less time."""

from collections.abc import Sequence
from ctypes import Structure, byref, c_int64, c_void_p
from functools import cache
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium.spaces import flatdim
from numpy.typing import NDArray

from supple.registry.native import load_native

from .array_tasks import ARRAY_TASKS, ArrayTask, NineRoomsTask
from .shifts.base import RowMap
from .vector import Running

KINDS = ("renumber action", "mirror index", "mirror real", "multiply", "add", "take", "renumber cell", "negate")
MOST_MAPS, ENDING = 8, 2  # as in classic.c
EXACT = ("-O2", "-ffp-contract=off", "-fno-builtin")  # no operation is merged with others or exchanged for them
STATES = 1000  # that must have the outcomes of NumPy before a task is stepped in C
SOURCE = Path(__file__).with_name("classic.c")


class _Map(Structure):
    _fields_ = [("kind", c_int64), ("values", c_void_p), ("ends", c_void_p)]


class _Rows(Structure):
    """`struct rows` of classic.c, which explains the fields."""

    _fields_ = [
        *((name, c_int64) for name in ("task", "copies", "numbers", "actions", "limit", "maps", "states")),
        *((name, c_void_p) for name in ("constants", "rewards", "neighbours", "bounds", "state", "next", "lengths")),
        *((name, c_void_p) for name in ("returns", "moved", "seen", "last", "shown", "before", "reward")),
        ("terminated", c_void_p),
        ("map", _Map * MOST_MAPS),
    ]


class CompiledRows:
    """The steps of several copies of a task, in C.

    Args:
        task: The task.
        state: The states of the copies, (k, copies), which steps change in place.
        running: The returns and lengths of their episodes, which steps change in place.
        limit: The steps of an episode.
        bounds: The bounds to which real actions are clipped, or None.
        maps: The shifts.

    Attributes:
        last: The observations of the environments themselves after the last step.
    """

    def __init__(
        self,
        task: ArrayTask,
        state: NDArray[np.generic],
        running: Running,
        limit: float = np.inf,
        bounds: tuple[np.ndarray, np.ndarray] | None = None,
        maps: Sequence[RowMap] = (),
    ) -> None:
        library = load_native(SOURCE, *EXACT)
        assert library is not None
        self.try_step, self.take_step = library.try_step, library.take_step
        copies, actions, shown = state.shape[1], task.env.action_space, task.env.observation_space
        self.actions = np.empty((copies, *actions.shape), actions.dtype)
        self.last = np.empty((copies, *shown.shape), shown.dtype)
        self.next, self.seen, self.reward = np.empty_like(state), np.empty_like(self.last), np.empty(copies)
        self.terminated = np.empty(copies, bool)
        self.shape = copies, flatdim(shown)
        tables = (task.rewards, task.neighbours) if isinstance(task, NineRoomsTask) else (None, None)
        clipped = None if bounds is None else np.concatenate(bounds)
        arrays = {
            "constants": np.array(task.numbers()), "rewards": tables[0], "neighbours": tables[1], "bounds": clipped,
            "state": state, "next": self.next, "lengths": running.lengths, "returns": running.returns,
            "moved": np.empty_like(self.actions), "seen": self.seen, "last": self.last,
            "before": np.empty(self.shape[1], np.float32), "reward": self.reward, "terminated": self.terminated,
        }  # fmt: skip
        values = [np.ascontiguousarray(each.values) for each in maps]
        self._alive = arrays, values, maps  # C only has their addresses
        self.rows = _Rows(
            task=list(ARRAY_TASKS.values()).index(type(task)),
            copies=copies,
            numbers=self.shape[1],
            actions=getattr(actions, "n", 0),
            limit=int(min(limit, 2**62)),
            maps=len(maps),
            states=len(state),
            **{name: array.ctypes.data for name, array in arrays.items() if array is not None},
        )
        for place, (map_, own) in enumerate(zip(maps, values, strict=True)):
            ends = None if map_.ends is None else map_.ends.ctypes.data
            self.rows.map[place] = _Map(KINDS.index(map_.kind), own.ctypes.data, ends)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, NDArray[np.float64], bool] | None:
        """Return the agent's observations (n, numbers), rewards (n,) and whether an episode ends, or None.

        The step is not taken if a result is not finite, or if the actions do not exist or are of another type."""
        if actions.dtype != self.actions.dtype or actions.shape != self.actions.shape or not actions.flags.c_contiguous:
            return None
        shown, reward = np.empty(self.shape, np.float32), np.empty(len(actions))
        self.rows.shown, self.rows.reward = shown.ctypes.data, reward.ctypes.data
        kind = self.take_step(byref(self.rows), c_void_p(actions.ctypes.data), c_int64(ENDING))
        return (shown, reward, kind == ENDING) if kind else None


@cache
def is_exact(name: str) -> bool:
    """Return whether C has the outcomes of NumPy here for some states: on another processor, a cosine may differ.

    name: The Gymnasium id of the task."""
    if load_native(SOURCE, *EXACT) is None:
        return False
    env, random = gym.make(name).unwrapped, np.random.default_rng(0)
    env.reset(seed=0)
    task, space = ARRAY_TASKS[name](env), env.action_space
    states = task.draw_states(random, STATES)
    low, high = getattr(space, "low", 0), getattr(space, "high", getattr(space, "n", 0))
    actions = random.uniform(low, high, (STATES, *(space.shape or ()))).astype(space.dtype)
    rows = CompiledRows(task, states, Running(STATES))
    rows.try_step(byref(rows.rows), c_void_p(actions.ctypes.data))
    ours = rows.next, rows.seen, rows.reward, rows.terminated
    return all(map(np.array_equal, ours, task.step(states, actions)))
