"""The environments of DQN, and their sizes."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from gymnasium import spaces

from ...envs import Envs, JoinedVector, make_pixels, side_by_side
from ..spaces import row_space
from ..work import AgentWork, World, make_flat
from .agent import DQN, STATISTICS
from .settings import DQNSettings
from .sizes import Pixels, RowSizes


class DQNWork(AgentWork):
    settings: DQNSettings
    statistics = STATISTICS

    @property
    def rows(self) -> int:
        return self.settings.batch_size

    def space(self, env: str) -> Pixels | RowSizes:
        """Return the sizes of an environment's observations and its number of actions."""
        s = self.settings
        if not env.startswith("ALE/"):
            shown = row_space(env, "dqn", s.kwargs, observations=s.observations, images=True, united=self.united)
            return RowSizes(shown.observation, spaces.flatdim(shown.action), shown.picture, shown.dtype == "uint8")
        envs: Any = self.envs(s, env, [s.world])
        stack, height, width = envs.single_observation_space.shape
        actions = int(envs.single_action_space.n)
        envs.close()
        return Pixels(stack, height, width, actions)

    def new_agent(self, settings: DQNSettings, spaces: Mapping[str, Any]) -> DQN:
        return DQN(settings, spaces)

    @staticmethod
    def envs(settings: DQNSettings, env: str, worlds: Sequence[World]) -> Envs:
        s = settings
        if not env.startswith("ALE/"):
            makes = [partial(make_flat, env, world, s.observations) for world in worlds]
            return side_by_side(makes, **s.stepping)
        share = max(len(worlds) // len(s.members), 1)  # the copies of a member
        # with --sticky-per step, all copies of a vector repeat an action together, which members must not
        kinds = [(world, row // share if s.sticky_per == "step" else 0) for row, world in enumerate(worlds)]
        alike = [(world, len(list(copies))) for (world, _), copies in groupby(kinds)]
        vectors = [
            make_pixels(
                env,
                copies,
                sticky=s.sticky,
                sticky_per=s.sticky_per,
                max_frames=s.max_frames,
                threads=s.stepping["threads"],
                **world,
            )
            for world, copies in alike
        ]
        return JoinedVector(vectors) if len(vectors) > 1 else vectors[0]
