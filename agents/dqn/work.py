"""DQN's environments, and what it must know of them."""

from collections.abc import Mapping
from typing import Any

from ...envs import Envs, make_pixels
from ..work import AgentWork
from .agent import DQN, Pixels
from .settings import DQNSettings


class DQNWork(AgentWork):
    settings: DQNSettings

    def space(self, env: str) -> Pixels:
        """Return what an environment shows and takes."""
        envs: Any = self.envs(env, 1)
        stack, height, width = envs.single_observation_space.shape
        actions = int(envs.single_action_space.n)
        envs.close()
        return Pixels(stack, height, width, actions)

    def new_agent(self, settings: DQNSettings, spaces: Mapping[str, Pixels]) -> DQN:
        return DQN(settings, spaces)

    def envs(self, env: str, copies: int, **world: Any) -> Envs:
        s = self.settings
        return make_pixels(
            env, copies, sticky=s.sticky, sticky_per=s.sticky_per, max_frames=s.max_frames, threads=s.threads, **world
        )
