"""PPO's environments, and what it must know of them."""

from collections.abc import Mapping

import gymnasium as gym

from ...envs import Envs, Vector, has_friction, make_env
from ...experiments.rundir import RunDirectory
from ..stream import EnvTask
from ..work import AgentWork
from .agent import PPO
from .network import Space
from .policies import policy_for
from .settings import PPOSettings


class PPOWork(AgentWork):
    settings: PPOSettings

    def space(self, env: str) -> Space:
        made = make_env(env)
        made.close()
        return Space(gym.spaces.flatdim(made.observation_space), policy_for(made.action_space))

    def new_agent(self, spaces: Mapping[str, Space]) -> PPO:
        return PPO(self.settings, spaces)

    def envs(self, env: str, copies: int) -> Envs:
        s = self.settings
        return Vector(
            lambda: make_env(env, clip_actions=s.clip_actions, max_episode_steps=s.max_episode_steps), copies
        )

    def learned(self, run: RunDirectory, task: EnvTask, step: int) -> None:
        """Begin new episodes after an update, where settings ask for it."""
        if self.settings.restart_episodes:
            assert self._envs is not None
            observations, episodes = self._envs.restart()
            for episode in episodes:
                self._log(run, task, step, episode)
            self.agent.begin_episodes(observations)

    def held_out(self, env: str, copies: int) -> Envs | None:
        """Return copies with another friction, where there is friction."""
        s = self.settings
        if not has_friction(env):
            return None
        return Vector(lambda: make_env(env, friction=s.eval_friction, clip_actions=s.clip_actions), copies)
