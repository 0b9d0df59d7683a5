"""The algorithms that scripts can name, and the environments that each lives in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from ..envs import Envs, Repeat, Vector, has_friction, make_env, make_pixels
from ..experiments.settings import RunSettings
from .agent import Agent
from .dqn import DQN, DQNSettings, Pixels
from .ppo import PPO, PPOSettings
from .sac import SAC, Control, SACSettings


@dataclass(frozen=True)
class Algorithm:
    """Everything that depends on which algorithm it is.

    settings: their class, extended from RunSettings.
    agent: made from settings and from environment → what `space` says of it.
    envs: copies of an environment, from (settings, environment, how many).
    held_out: the same of its perturbed variant for evaluations, or None if it has none.
    space: what the agent must know of an environment. Raises ValueError, by name, for one that it cannot serve.
    """

    settings: type[RunSettings]
    agent: Callable[[Any, Mapping[str, Any]], Agent]
    envs: Callable[[Any, str, int], Envs]
    held_out: Callable[[Any, str, int], Envs | None]
    space: Callable[[Any, str], Any]


def control(s: PPOSettings, env: str, copies: int) -> Envs:
    return Vector(lambda: make_env(env, clip_actions=s.clip_actions), copies)


def other_friction(s: PPOSettings, env: str, copies: int) -> Envs | None:
    if not has_friction(env):
        return None
    return Vector(lambda: make_env(env, friction=s.eval_friction, clip_actions=s.clip_actions), copies)


def vector_sizes(s: PPOSettings, name: str) -> tuple[int, int]:
    """(observation size, action size)."""
    observation, action = vector_spaces(name)
    return gym.spaces.flatdim(observation), gym.spaces.flatdim(action)


def vector_spaces(name: str) -> tuple[gym.spaces.Box, gym.spaces.Box]:
    """Spaces of observations and actions, which are vectors. Raises ValueError where they are not."""
    env = make_env(name)
    spaces = {"observations": env.observation_space, "actions": env.action_space}
    env.close()
    boxes = []
    for what, space in spaces.items():
        if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
            raise ValueError(f"{name}: this agent needs vectors of real numbers as {what}, not {space}")
        boxes.append(space)
    return boxes[0], boxes[1]


def pixels(s: DQNSettings, env: str, copies: int) -> Envs:
    return make_pixels(
        env, copies, sticky=s.sticky, sticky_per=s.sticky_per, max_frames=s.max_frames, threads=s.threads
    )


def pixel_sizes(s: DQNSettings, name: str) -> Pixels:
    envs = pixels(s, name, 1)
    stack, height, width = envs.single_observation_space.shape
    actions = int(envs.single_action_space.n)
    envs.close()
    return Pixels(stack, height, width, actions)


def repeated(s: SACSettings, env: str, copies: int) -> Envs:
    return Vector(lambda: Repeat(make_env(env), s.action_repeat), copies)


def bounded_control(s: SACSettings, name: str) -> Control:
    observation, action = vector_spaces(name)
    if observation.dtype.kind != "f":
        raise ValueError(f"{name}: SAC needs vectors of real numbers as observations, not {observation}")
    if not action.is_bounded():
        raise ValueError(f"{name}: SAC needs actions with bounds, not {action}")
    return Control(gym.spaces.flatdim(observation), *(tuple(map(float, bound)) for bound in (action.low, action.high)))


ALGORITHMS = {
    "ppo": Algorithm(PPOSettings, PPO, control, other_friction, vector_sizes),
    "dqn": Algorithm(DQNSettings, DQN, pixels, lambda s, env, copies: None, pixel_sizes),
    "sac": Algorithm(SACSettings, SAC, repeated, lambda s, env, copies: None, bounded_control),
}
