"""Whether copies of an environment leave each other alone, as the agents of a stack need."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np

from .flat import flatten
from .make import make_env

STEPS = 5  # that a copy makes alone, and again beside another one
TRUSTED = ("gymnasium.", "supple.", "ale_py.")  # modules whose environments keep their state to themselves


def share_state(name: str, kwargs: Mapping[str, Any] | None = None) -> bool:
    """Return whether what one copy of an environment does changes what happens in another one.

    A copy plays a few steps alone, and again while another one plays. Both must be the same. They are not if copies
    have state in common, such as a variable of their module or NumPy's global generator, or if the seed of a reset does
    not determine the episode. Environments of Gymnasium, ALE and this package are not tried.

    Args:
        name: The Gymnasium id of the environment.
        kwargs: Its keyword arguments.
    """
    if str(gym.spec(name).entry_point).startswith(TRUSTED):
        return False
    first, second = (flatten(make_env(name, kwargs=kwargs)) for _ in range(2))
    try:
        alone = _play(first, lambda step: None)
        return not all(map(np.array_equal, alone, _play(first, lambda step: _play_along(second, step))))
    finally:
        first.close()
        second.close()


@cache
def copies_interfere(name: str, kwargs: str) -> bool:
    """Return `share_state` of an environment and the JSON text of its arguments, tried once by each process."""
    return share_state(name, json.loads(kwargs))


def _play(env: gym.Env, meanwhile: Callable[[int], None]) -> list[Any]:
    """Return what happens in the first steps of an episode. `meanwhile` is called after each of them."""
    env.action_space.seed(0)
    seen: list[Any] = [env.reset(seed=0)[0]]
    for step in range(STEPS):
        meanwhile(step)
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        seen += [observation, reward, terminated, truncated]
        if terminated or truncated:
            break
    return seen


def _play_along(env: gym.Env, step: int) -> None:
    if not step:
        env.action_space.seed(1)
        env.reset(seed=1)
    *_, terminated, truncated, _ = env.step(env.action_space.sample())
    if terminated or truncated:
        env.reset()
