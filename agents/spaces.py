"""The observation and action spaces that each agent supports."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
from gymnasium import spaces

from ..envs import flatten, is_image, make_env, package_hint, resolve_env
from ..envs.fault import text_of

AgentSpace = TypeVar("AgentSpace")
# The action spaces that each agent supports. Observations may be anything that `envs.flatten` turns into vectors.
ACTIONS: Mapping[str, tuple[type[spaces.Space], ...]] = {
    "ppo": (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete),
    "dqn": (spaces.Discrete,),
    "sac": (spaces.Box,),
}


class VectorSpace(NamedTuple):
    """The length of an environment's observations as vectors (see `envs.flatten`), and its action space."""

    observation: int
    action: spaces.Space


def vector_space(
    name: str,
    agent: str,
    kwargs: Mapping[str, Any] | None = None,
    actions: tuple[type[spaces.Space], ...] | None = None,
) -> VectorSpace:
    """Return the sizes of an environment with vector observations, for an agent.

    Args:
        name: The environment's name.
        agent: The agent's name.
        kwargs: The keyword arguments of the environment.
        actions: The classes of the action spaces that the agent supports. By default, those of ppo, dqn or sac.

    Raises:
        ValueError: The observations cannot be turned into vectors, or the agent does not support the actions. The
            message names the environment and the agents that support its actions.
    """
    env = make_env(name, kwargs=kwargs)
    try:
        shown = flatten(env).observation_space
    except ValueError as error:
        hint = package_hint(type(env.unwrapped).__module__)
        raise ValueError(f"{name}: {error}{hint and f' ({hint})'}") from error
    finally:
        env.close()
    action = env.action_space
    supported = ACTIONS[agent] if actions is None else actions
    if not isinstance(action, supported):
        *most, last = (kind.__name__ for kind in supported)
        needs = f"{', '.join(most)} or {last}" if most else last
        others = [other for other, kinds in ACTIONS.items() if isinstance(action, kinds)]
        hint = f": use {' or '.join(others)}" if others else ""
        raise ValueError(f"{name}: {agent} needs {needs} actions, but they are {text_of(action)}{hint}")
    if isinstance(action, spaces.Box) and not np.issubdtype(action.dtype, np.floating):
        raise ValueError(
            f"{name}: {agent} needs actions of real numbers, but they are {text_of(action)}: use a Box of float32, or "
            "for ppo a MultiDiscrete space"
        )
    if isinstance(action, spaces.Box) and len(action.shape) != 1:
        raise ValueError(f"{name}: {agent} needs actions that are vectors, but they are {text_of(action)}")
    if not spaces.flatdim(action):
        raise ValueError(f"{name}: {agent} needs at least one action, but they are {text_of(action)}")
    if isinstance(action, spaces.Discrete | spaces.MultiDiscrete) and np.any(action.start):
        raise ValueError(f"{name}: {agent} needs actions numbered from 0, but they are {text_of(action)}")
    return VectorSpace(spaces.flatdim(shown), action)


def only_space(agent: str, spaces: Mapping[str, AgentSpace]) -> AgentSpace:
    """Return the one space of all environments, by their names. Raises ValueError if they differ."""
    (first, common), *others = spaces.items()
    for env, space in others:
        if space != common:
            raise ValueError(
                f"{agent} has one network for all tasks and needs equal spaces, but {first} has {common} and "
                f"{env} has {space}"
            )
    return common


def shows_images(name: str, kwargs: Mapping[str, Any] | None = None) -> bool:
    """Return whether an environment is an Atari game, or its observations are images of uint8."""
    if resolve_env(name).startswith("ALE/"):
        return True
    env = make_env(name, kwargs=kwargs)
    env.close()
    return env.observation_space.dtype == np.uint8 and is_image(env.observation_space)
