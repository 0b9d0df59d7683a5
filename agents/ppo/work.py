"""PPO's environments, and what it must know of them."""

from collections.abc import Mapping

import gymnasium as gym

from ...envs import Envs, Vector, has_friction, make_env
from ..spaces import vector_spaces
from ..work import AgentWork
from .agent import PPO
from .settings import PPOSettings


class PPOWork(AgentWork):
    settings: PPOSettings

    def space(self, env: str) -> tuple[int, int]:
        """Return (observation size, action size)."""
        observation, action = vector_spaces(env)
        return gym.spaces.flatdim(observation), gym.spaces.flatdim(action)

    def new_agent(self, spaces: Mapping[str, tuple[int, int]]) -> PPO:
        return PPO(self.settings, spaces)

    def envs(self, env: str, copies: int) -> Envs:
        return Vector(lambda: make_env(env, clip_actions=self.settings.clip_actions), copies)

    def held_out(self, env: str, copies: int) -> Envs | None:
        """Return copies with another friction, where there is friction."""
        s = self.settings
        if not has_friction(env):
            return None
        return Vector(lambda: make_env(env, friction=s.eval_friction, clip_actions=s.clip_actions), copies)
