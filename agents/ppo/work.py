"""The environments of PPO, and their spaces."""

import math
from collections.abc import Mapping, Sequence
from functools import partial

from ...engine.storage.run_directory import RunDirectory
from ...envs import Envs, Picture, Vector, WorkerVector, has_friction, side_by_side
from ..games import is_game, look_at_game, make_games
from ..spaces import row_space
from ..stream import EnvTask
from ..work import AgentWork, World, make_flat
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

    @staticmethod
    def envs(settings: PPOSettings, env: str, worlds: Sequence[World]) -> Envs:
        if is_game(env):
            return make_games(settings, env, worlds)
        clips = {"clip_actions": settings.clip_actions}
        makes = [partial(make_flat, env, {**world, **clips}, settings.observations) for world in worlds]
        return side_by_side(makes, **settings.stepping)

    def after_update(self, run: RunDirectory, task: EnvTask, step: int) -> None:
        """Begin new episodes after an update if the settings ask for it (`restart_episodes`)."""
        if self.settings.restart_episodes:
            assert isinstance(self._envs, Vector | WorkerVector)
            observations, episodes = self._envs.restart()
            for episode in episodes:
                self._log_episode(run, task, step, episode)
            self.agent.begin_episodes(observations)

    def held_out(self, env: str, worlds: Sequence[World]) -> Envs | None:
        """Return copies with another friction, or None if the environment has no friction."""
        s = self.settings
        if is_game(env) or not has_friction(env, s.kwargs):
            return None
        return self.envs(s, env, [{**world, "friction": s.eval_friction} for world in worlds])
