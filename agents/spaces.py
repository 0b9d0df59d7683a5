"""The observation and action spaces that each agent supports."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
from gymnasium import spaces

from supple.envs import (
    Flat,
    Observations,
    Picture,
    United,
    find_image,
    flatten,
    make_env,
    package_hint,
    picture_of,
    resolve_env,
    unite,
)
from supple.envs.atari import SIDE, STACK
from supple.envs.fault import EnvironmentFault, text_of
from supple.envs.make import Kwargs
from supple.envs.packaged import WithoutMission
from supple.envs.shifts.base import wrappers_of

AgentSpace = TypeVar("AgentSpace")
FAINT = 0.1  # the share of an image's bounds below which its values are small for a network
# The action spaces that each agent supports. Observations may be anything that `envs.flatten` turns into rows.
ACTIONS: Mapping[str, tuple[type[spaces.Space], ...]] = {
    "ppo": (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete),
    "dqn": (spaces.Discrete,),
    "sac": (spaces.Box,),
}


class RowSpace(NamedTuple):
    """An environment's observations as rows of numbers (see `envs.flatten`), and its action space.

    Attributes:
        observation: The length of a row.
        action: The action space.
        dtype: The type of the numbers, as a name of NumPy's.
        picture: How an image lies in a row, or None if observations are vectors.
    """

    observation: int
    action: spaces.Space
    dtype: str = "float32"
    picture: Picture | None = None


def row_space(
    name: str,
    agent: str,
    kwargs: Kwargs | None = None,
    actions: tuple[type[spaces.Space], ...] | None = None,
    observations: Observations = "auto",
    images: bool = False,
    united: United | None = None,
) -> RowSpace:
    """Return the sizes of an environment for an agent, with its observations as rows of numbers.

    Args:
        name: The environment's name.
        agent: The agent's name.
        kwargs: The keyword arguments of the environment.
        actions: The classes of the action spaces that the agent supports. By default, those of ppo, dqn or sac.
        observations: Which observations are images (see `envs.find_image`).
        images: Whether the agent reads images.
        united: What the environments of the run have in common (see `unite_environments`).

    Raises:
        ValueError: The observations cannot be turned into rows, they are images that the agent does not read, or the
            agent does not support the actions. The message names the environment and the agents that do.
    """
    with blaming_arguments(kwargs):
        env = make_env(name, kwargs=kwargs, united=united)
        if kwargs:  # begin an episode and make a step, since some arguments are wrong only then
            env.reset(seed=0)
            env.action_space.seed(0)
            env.step(env.action_space.sample())
    try:
        flat = flatten(env, observations)
    except ValueError as error:
        hint = package_hint(type(env.unwrapped).__module__)
        raise ValueError(f"{name}: {error}{hint and f' ({hint})'}") from error
    finally:
        env.close()
    picture = flat.picture if isinstance(flat, Flat) else None
    if picture is not None and not images:
        raise ValueError(
            f"{name}: {agent} reads no images, but observations are {picture}: use {', '.join(ACTIONS)}, or read the "
            "pixels as a vector with --observations vector"
        )
    action = env.action_space
    supported = ACTIONS[agent] if actions is None else actions
    needs = hint = ""
    if not isinstance(action, supported):
        *most, last = (kind.__name__ for kind in supported)
        needs = f"{', '.join(most)} or {last} actions" if most else f"{last} actions"
        others = [other for other, kinds in ACTIONS.items() if isinstance(action, kinds)]
        hint = f": use {' or '.join(others)}" if others else ""
    elif isinstance(action, spaces.Box) and not np.issubdtype(action.dtype, np.floating):
        needs = "actions of real numbers"
        hint = ": use a Box of float32, or for ppo a MultiDiscrete space"
    elif isinstance(action, spaces.Box) and len(action.shape) != 1:
        needs = "actions that are vectors"
    elif not spaces.flatdim(action):
        needs = "at least one action"
    elif isinstance(action, spaces.Discrete | spaces.MultiDiscrete) and np.any(action.start):
        needs = "actions numbered from 0"
    if needs:
        raise ValueError(f"{name}: {agent} needs {needs}, but they are {text_of(action)}{hint}")
    shown = flat.observation_space
    return RowSpace(spaces.flatdim(shown), action, str(shown.dtype), picture)


@contextmanager
def blaming_arguments(kwargs: Kwargs | None) -> Iterator[None]:
    """Turn a fault of an environment that is given keyword arguments into ValueError, which names these."""
    try:
        yield
    except EnvironmentFault as fault:
        if not kwargs:
            raise
        raise ValueError(f"--env-kwargs {json.dumps(dict(kwargs))}: {fault}") from fault


def unite_environments(
    names: Iterable[str], kwargs: Kwargs | None = None, observations: Observations = "auto"
) -> United | None:
    """Return what the environments of a run have in common (see `envs.unite`), or None if there is only one.

    Atari games are left out, whose images agents may read in another form. Raises ValueError as `envs.unite` does."""
    several = [name for name in dict.fromkeys(names) if not name.startswith("ALE/")]
    if len(several) < 2:
        return None
    with ExitStack() as stack, blaming_arguments(kwargs):
        envs = {name: stack.enter_context(closing(make_env(name, kwargs=kwargs))) for name in several}
        return unite(envs, observations)


def describe_united(names: Iterable[str], kwargs: Kwargs | None, observations: Observations) -> str:
    """Return a line that says what the environments of a run are shown with in common, or ""."""
    try:
        united = unite_environments(names, kwargs, observations)
    except (EnvironmentFault, ImportError, ValueError):  # said where the environments are needed
        return ""
    if united is None:
        return ""
    shown = [f"{united.channels} channels (zeros where they have fewer)"] if united.channels else []
    shown += [f"{united.actions} actions (those that they lack are action 0)"] if united.actions else []
    return f"the environments of the sequence are given {' and '.join(shown)}"


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


def describe_rows(name: str, kwargs: Kwargs | None, observations: Observations) -> str:
    """Return a line that says how an environment's observations are read if one might expect otherwise, else ""."""
    with closing(make_env(name, kwargs=kwargs)) as env:
        shown = env.observation_space
        if (image := find_image(shown, observations)) is not None:
            picture = picture_of(image.space, observations)
            others = "chw: first" if picture.last else "hwc: last"
            said = f"{name}: observations{image.name and f' in {image.name}'} are {picture}, --observations {others}"
            if any(isinstance(wrapper, WithoutMission) for wrapper in wrappers_of(env)):
                said += "; the text of its mission is left out"
            largest = flatten(env, observations).reset(seed=0)[0][: picture.size].max()
            if 0 < largest - picture.low < FAINT * (picture.high - picture.low):
                said += f"; the first has no value above {largest:g}: if none has, give its space that bound"
            return said
    if isinstance(shown, spaces.Box) and len(shown.shape) > 1:
        return f"{name}: observations of {shown.shape} are read as vectors (--observations image: as images)"
    return ""


def picture_in(name: str, kwargs: Mapping[str, Any], observations: Observations) -> Picture | None:
    """Return how the image lies in an environment's rows, or None if it shows none (see `envs.find_image`)."""
    if resolve_env(name).startswith("ALE/"):
        return Picture(STACK, SIDE, SIDE)
    env = make_env(name, kwargs=kwargs)
    env.close()
    image = find_image(env.observation_space, observations)
    return None if image is None else picture_of(image.space, observations)
