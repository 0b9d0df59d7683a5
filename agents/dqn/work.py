"""The environments of DQN, and their sizes."""

from collections.abc import Mapping
from typing import Any

from gymnasium import spaces

from supple.agents.games import is_game, look_at_game
from supple.agents.offpolicy.replay import ReplayLayout
from supple.agents.spaces import row_space
from supple.agents.work import AgentWork
from supple.envs import Picture

from .agent import DQN, STATISTICS
from .network import Sizes
from .settings import DQNSettings


class DQNWork(AgentWork):
    settings: DQNSettings
    statistics = STATISTICS
    batch = ("batch_size",)

    def space(self, env: str) -> Sizes:
        """Return the sizes of an environment's observations and its number of actions."""
        s = self.settings
        if not is_game(env):
            shown = row_space(env, "dqn", s.kwargs, observations=s.observations, images=True, united=self.united)
            dtype = "uint8" if shown.dtype == "uint8" else "float32"
            actions = spaces.flatdim(shown.action)
            return Sizes(ReplayLayout((shown.observation,), dtype, actions=actions), shown.picture)
        (stack, height, width), choices = look_at_game(s, env)
        layout = ReplayLayout((height, width), "uint8", stack, actions=int(choices.n))
        return Sizes(layout, Picture(stack, height, width))

    def new_agent(self, settings: DQNSettings, spaces: Mapping[str, Any]) -> DQN:
        return DQN(settings, spaces)
