"""Several shifts at once, as one text names them: `offset(scale=2) + flip_actions`."""

import re
import zlib
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from ...registry import bind, parse_call
from .base import Shift, Values, shifts


class Shifts:
    """The changes between the tasks of a stream: shifts of different names, the first nearest to the environment.

    Raises ValueError if one is there twice.
    """

    def __init__(self, parts: Sequence[Shift]) -> None:
        self.parts = tuple(parts)
        names = [part.name for part in parts]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"shift {twice[0]!r} is given twice: each may be there once")

    @property
    def is_gradual(self) -> bool:
        """Whether one of them comes over steps, which it must then be told (`Shifted.progress`)."""
        return any(part.over for part in self.parts)

    def check(self, env: gym.Env, steps_per_task: int | None = None) -> None:
        """Raise ValueError, in one line, where one of them does not fit this environment, which may be reset.

        steps_per_task: of all copies together; no change may take longer.
        """
        for part in self.parts:
            part.check(env)
            if steps_per_task is not None and part.over > steps_per_task:
                raise ValueError(f"{part} comes over {part.over} steps, and a task has only {steps_per_task}")

    def values(self, env: gym.Env, seed: int, task: int) -> dict[str, dict[str, Any]]:
        """Return what `task` (from 0) is given, by the names of shift and value: numbers and lists, for JSON.

        A pure function of the seed, the task and the environment's kind: the same for every copy, in every process.
        A shift's values do not depend on the other shifts beside it.
        """
        drawn = self.drawn(env, seed, task)
        return {
            name: {key: value.tolist() if hasattr(value, "tolist") else value for key, value in values.items()}
            for name, values in drawn.items()
        }

    def drawn(self, env: gym.Env, seed: int, task: int) -> dict[str, Values]:
        """Return the values of `task`, arrays as they are; of task −1, before all others, the neutral ones."""
        values = {part.name: part.neutral(env) for part in self.parts}
        for number in range(task + 1):
            values = self.following(env, seed, number, values)
        return values

    def following(self, env: gym.Env, seed: int, task: int, previous: dict[str, Values]) -> dict[str, Values]:
        """Return the values of `task`, given those of the task before."""
        values = dict(previous)
        for part in self.parts:
            if task >= part.from_task:
                key = (task, zlib.crc32(part.name.encode()))
                random = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))
                values[part.name] = part.draw(env, random, previous[part.name])
        return values

    def __str__(self) -> str:
        return " + ".join(map(str, self.parts))


def parse_shifts(text: str) -> Shifts:
    """Return the shifts that a text names, with `+` between them: `friction(over=100_000) + flip_actions`.

    Raises ValueError, in one line, for an unknown name or parameter (with near ones), a parameter out of range,
    or a shift that is there twice; CallSyntaxError, which is one, for a text that is no call.
    """
    parts = []
    for piece in re.split(r"\+(?![^()]*\))", text):  # but not the sign of a number in parentheses
        call = parse_call(piece.strip())
        factory = shifts.get(call.name)
        params = bind(factory, call.params, call.name)
        try:
            part = factory(**params)
        except ValueError as error:
            raise ValueError(f"{call.name}: {error}") from error
        part.name, part.params = call.name, dict(params)
        parts.append(part)
    return Shifts(parts)
