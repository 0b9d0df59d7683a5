"""The environments of DQN, and their sizes."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from gymnasium import spaces

from ...envs import Envs, side_by_side
from ..games import is_game, look_at_game, make_games
from ..spaces import row_space
from ..work import AgentWork, World, make_flat
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

    @staticmethod
    def envs(settings: DQNSettings, env: str, worlds: Sequence[World]) -> Envs:
        if is_game(env):
            return make_games(settings, env, worlds)
        makes = [partial(make_flat, env, world, settings.observations) for world in worlds]
        return side_by_side(makes, **settings.stepping)
