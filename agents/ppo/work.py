"""The environments of PPO, and their spaces."""

import math
from collections.abc import Mapping, Sequence

import gymnasium as gym

from supple.agents.games import is_game, look_at_game
from supple.agents.spaces import row_space
from supple.agents.tasks import EnvTask
from supple.agents.work import AgentWork, World
from supple.engine.storage.run_directory import RunDirectory
from supple.envs import ArrayVector, Envs, Picture, Vector, WorkerVector, has_friction

from .agent import PPO
from .network import PolicySpace
from .policies import policy_for
from .settings import PPOSettings
from .update import STATISTICS


class PPOWork(AgentWork):
    settings: PPOSettings
    agent: PPO
    statistics = STATISTICS
    batch = ("minibatch_size",)

    def space(self, env: str) -> PolicySpace:
        s = self.settings
        if is_game(env):
            shape, actions = look_at_game(s, env)
            return PolicySpace(math.prod(shape), policy_for(actions), "uint8", Picture(*shape))
        row = row_space(env, "ppo", s.kwargs, observations=s.observations, images=True, united=self.united)
        dtype = row.dtype if row.picture else "float32"
        return PolicySpace(row.observation, policy_for(row.action), dtype, row.picture)

    def new_agent(self, settings: PPOSettings, spaces: Mapping[str, PolicySpace]) -> PPO:
        return PPO(settings, spaces)

    @classmethod
    def make(cls, settings: PPOSettings, env: str, world: World) -> gym.Env:
        return super().make(settings, env, {**world, "clip_actions": settings.clip_actions})

    def take_uneventful_steps(self, most: int) -> int:
        return self.agent.collect(self._envs, most) if isinstance(self._envs, ArrayVector) else 0

    def after_update(self, run: RunDirectory, task: EnvTask, step: int) -> None:
        """Begin new episodes after an update if the settings ask for it (`restart_episodes`)."""
        if self.settings.restart_episodes:
            assert isinstance(self._envs, Vector | WorkerVector)
            observations, episodes = self._envs.restart()
            for episode in episodes:
                self.episodes.add(run, task, step, episode)
            self.agent.begin_episodes(observations)

    def held_out(self, env: str, worlds: Sequence[World]) -> Envs | None:
        """Return copies with another friction, or None if the environment has no friction."""
        s = self.settings
        if is_game(env) or not has_friction(env, s.kwargs):
            return None
        return self.envs(s, env, [{**world, "friction": s.eval_friction} for world in worlds])
