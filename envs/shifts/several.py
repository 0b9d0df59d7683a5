"""Combinations of shifts, written as one text: `offset(scale=2) + flip_actions`."""

import re
import zlib
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from supple.registry import bind, naming, parse_call
from supple.registry.errors import refusing

from .base import Shift, Values, call_shift, shifts


class Shifts:
    """The shifts between the tasks of a stream, with different names, the first closest to the environment.

    Raises ValueError if a shift occurs twice.
    """

    def __init__(self, parts: Sequence[Shift]) -> None:
        self.parts = tuple(parts)
        names = [part.name for part in parts]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"shift {twice[0]!r} is given twice: each shift may occur once")

    @property
    def is_gradual(self) -> bool:
        """Whether a shift is gradual, so that it needs the number of steps (`Shifted.progress`)."""
        return any(part.over for part in self.parts)

    def check(self, env: gym.Env, steps_per_task: int | None = None) -> None:
        """Raise ValueError if a shift does not fit this environment. May reset the environment.

        Args:
            env: The environment.
            steps_per_task: The length of a task in steps, over all copies. No gradual change may be longer.
        """
        for part in self.parts:
            call_shift(part, "check", env)
            if steps_per_task is not None and part.over > steps_per_task:
                raise ValueError(f"{part} takes {part.over} steps, but a task has only {steps_per_task}")

    def values(self, env: gym.Env, seed: int, task: int) -> dict[str, dict[str, Any]]:
        """Return the values of `task` (from 0), by the names of shift and value, as numbers and lists for JSON.

        They only depend on the seed, the task and the environment, so that they are the same for every copy and
        process. The values of a shift do not depend on the other shifts.
        """
        drawn = self.draw(env, seed, task)
        return {
            name: {key: value.tolist() if hasattr(value, "tolist") else value for key, value in values.items()}
            for name, values in drawn.items()
        }

    def draw(self, env: gym.Env, seed: int, task: int) -> dict[str, Values]:
        """Return the values of `task` as arrays. Task −1, before all others, has the neutral values."""
        values = {part.name: call_shift(part, "neutral", env) for part in self.parts}
        for number in range(task + 1):
            values = self.draw_next(env, seed, number, values)
        return values

    def draw_next(self, env: gym.Env, seed: int, task: int, previous: dict[str, Values]) -> dict[str, Values]:
        """Return the values of a task, given those of the task before.

        Args:
            env: The environment, which is not changed.
            seed: The seed of the shifts, 0 or more.
            task: The index of the task, from 0.
            previous: The values of the task before, by the names of shift and value.
        """
        values = dict(previous)
        for part in self.parts:
            if task >= part.from_task:
                key = (task, zlib.crc32(part.name.encode()))
                random = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))
                values[part.name] = call_shift(part, "draw", env, random, previous[part.name])
        return values

    def __str__(self) -> str:
        return " + ".join(map(str, self.parts))


def parse_shifts(text: str) -> Shifts:
    """Return the shifts of a text, separated by `+`: `friction(over=100_000) + flip_actions`.

    Raises:
        ValueError: A name or parameter is unknown (the message has the nearest names), a parameter is out of range, or
            a shift occurs twice. If the text cannot be parsed, this is a CallSyntaxError.
    """
    parts = []
    for piece in re.split(r"\+(?![^()]*\))", text):  # not at the sign of a number in parentheses
        call = parse_call(piece.strip())
        factory = shifts.get(call.name)
        params = bind(factory, call.params, call.name)
        with refusing(call.name, ValueError), naming(f"making the shift {call.name}", factory):
            part = factory(**params)
        part.name, part.params = call.name, dict(params)
        parts.append(part)
    return Shifts(parts)
