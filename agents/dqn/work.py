"""The environments of DQN, and their sizes."""

from collections.abc import Mapping
from typing import Any

from gymnasium import spaces

from supple.agents.games import is_game, look_at_game
from supple.agents.spaces import row_space
from supple.agents.work import AgentWork

from .agent import DQN, STATISTICS
from .settings import DQNSettings
from .sizes import Pixels, RowSizes


class DQNWork(AgentWork):
    settings: DQNSettings
    statistics = STATISTICS
    batch = ("batch_size",)

    def space(self, env: str) -> Pixels | RowSizes:
        """Return the sizes of an environment's observations and its number of actions."""
        s = self.settings
        if not is_game(env):
            shown = row_space(env, "dqn", s.kwargs, observations=s.observations, images=True, united=self.united)
            return RowSizes(shown.observation, spaces.flatdim(shown.action), shown.picture, shown.dtype == "uint8")
        shape, actions = look_at_game(s, env)
        return Pixels(*shape, int(actions.n))

    def new_agent(self, settings: DQNSettings, spaces: Mapping[str, Any]) -> DQN:
        return DQN(settings, spaces)
