"""The algorithms that scripts can name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..experiments.settings import RunSettings
from .agent import Agent
from .ppo import PPO, PPOSettings

Spaces = Mapping[str, tuple[int, int]]  # environment → (observation size, action size)


@dataclass(frozen=True)
class Algorithm:
    """An algorithm's settings, and the agent that they make."""

    settings: type[RunSettings]
    agent: Callable[[Any, Spaces], Agent]


ALGORITHMS = {"ppo": Algorithm(PPOSettings, PPO)}
