"""Whether copies of an environment leave each other alone, as the agents of a stack need."""

import json
from contextlib import closing
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np

from .flat import flatten
from .make import make_env

STEPS = 5  # that a copy makes alone, and again beside another one
TRUSTED = ("gymnasium.", "supple.", "ale_py.")  # modules whose environments keep their state to themselves


@cache
def copies_interfere(name: str, kwargs: str = "{}") -> bool:
    """Return whether what one copy of an environment does changes what happens in another one, tried once.

    A copy plays a few steps alone, and again while another one plays. Both must be the same. They are not if copies
    have state in common, such as a variable of their module or NumPy's global generator, or if the seed of a reset does
    not determine the episode. Environments of Gymnasium, ALE and this package are not tried.

    Args:
        name: The Gymnasium id of the environment.
        kwargs: Its keyword arguments, as JSON.
    """
    if str(gym.spec(name).entry_point).startswith(TRUSTED):
        return False
    first, second = (flatten(make_env(name, kwargs=json.loads(kwargs))) for _ in range(2))
    with closing(first), closing(second):
        return not all(map(np.array_equal, _play(first), _play(first, second)))


def _play(env: gym.Env, beside: gym.Env | None = None) -> list[Any]:
    """Return what happens in the first steps of an episode, if the other environment plays too."""
    env.action_space.seed(0)
    seen: list[Any] = [env.reset(seed=0)[0]]
    for step in range(STEPS):
        action = env.action_space.sample()
        if beside is not None:
            beside.reset(seed=step + 1)
            beside.step(action)
        observation, reward, terminated, truncated, _ = env.step(action)
        seen += [observation, reward, terminated, truncated]
        if terminated or truncated:
            break
    return seen
