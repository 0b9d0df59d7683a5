"""Which spaces of observations and actions each agent can serve, and what it must know of an environment."""

from collections.abc import Mapping
from typing import NamedTuple

from gymnasium import spaces

from ..envs import flat, make_env

# What each agent's actions may be, of one kind; observations may be whatever `envs.flat` makes vectors of.
ACTIONS: Mapping[str, tuple[type[spaces.Space], ...]] = {
    "ppo": (spaces.Box, spaces.Discrete, spaces.MultiBinary),
    "dqn": (spaces.Discrete,),
    "sac": (spaces.Box,),
}


class VectorSpace(NamedTuple):
    """The size of the vectors that an environment shows (those of `envs.flat`), and the space of its actions."""

    observation: int
    action: spaces.Space


def vector_space(name: str, agent: str) -> VectorSpace:
    """Return what an agent (`ppo`, `dqn`, `sac`) must know of an environment that it reads as vectors.

    Raises ValueError, in one line that names the environment, for observations that cannot be vectors, and for actions
    that are not this agent's, with the agents whose they are."""
    env = make_env(name)
    try:
        shown = flat(env).observation_space
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    finally:
        env.close()
    action = env.action_space
    if not isinstance(action, ACTIONS[agent]):
        *most, last = (kind.__name__ for kind in ACTIONS[agent])
        needs = f"{', '.join(most)} or {last}" if most else last
        others = [other for other, kinds in ACTIONS.items() if isinstance(action, kinds)]
        hint = f": use {' or '.join(others)}" if others else ""
        raise ValueError(f"{name}: {agent} needs {needs} actions, not {action}{hint}")
    if isinstance(action, spaces.Box) and len(action.shape) != 1:
        raise ValueError(f"{name}: {agent} needs vectors as actions, not {action}")
    if isinstance(action, spaces.Discrete) and action.start != 0:
        raise ValueError(f"{name}: {agent} needs actions numbered from 0, not {action}")
    return VectorSpace(spaces.flatdim(shown), action)
