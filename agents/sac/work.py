"""The environments of SAC, and their sizes and action bounds."""

from collections.abc import Mapping

import gymnasium as gym
import numpy as np

from supple.agents.spaces import row_space
from supple.agents.work import AgentWork, World
from supple.envs import Repeat
from supple.envs.fault import text_of

from .agent import SAC
from .inputs import Control
from .settings import SACSettings
from .update import STATISTICS

BOUNDLESS = 1e18  # bounds from here on stand for none, such as the largest float32, whose square is infinite


class SACWork(AgentWork):
    settings: SACSettings
    statistics = STATISTICS
    batch = ("batch_size",)

    def space(self, env: str) -> Control:
        """Return the length of the observations and the bounds of the actions. Raises ValueError if there are none."""
        s = self.settings
        size, action, dtype, picture = row_space(
            env, "sac", s.kwargs, observations=s.observations, images=True, united=self.united
        )
        assert isinstance(action, gym.spaces.Box)
        if not (action.is_bounded() and max(np.abs(action.low).max(), np.abs(action.high).max()) < BOUNDLESS):
            raise ValueError(f"{env}: SAC needs bounded actions, but they are {text_of(action)}")
        low, high = (tuple(map(float, bound)) for bound in (action.low, action.high))
        return Control(size, low, high, picture, "uint8" if dtype == "uint8" else "float32")

    def new_agent(self, settings: SACSettings, spaces: Mapping[str, Control]) -> SAC:
        return SAC(settings, spaces)

    @classmethod
    def make(cls, settings: SACSettings, env: str, world: World) -> gym.Env:
        one = super().make(settings, env, world)
        return one if settings.action_repeat == 1 else Repeat(one, settings.action_repeat)
