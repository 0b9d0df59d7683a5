"""How PPO normalises what environments show: running statistics of each of them, which go on when it returns."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..normalize import Centre, RewardScale, RunningMeanStd
from .network import PolicySpace
from .settings import PPOSettings

Array = NDArray[np.float64]
CLIP = 10.0  # of normalised observations and rewards


class Normalizers:
    """The running statistics of each environment, or the one set that all share, by key.

    Args:
        settings: Say what is normalised, and the number of environments of a member.
        spaces: Key → the space of the environments.
        stack: (members,), or () for one agent.

    Attributes:
        observations: The statistics of observations.
        centres: The offsets of large observations, if these are not normalised; otherwise empty.
        rewards: The scales of rewards.
    """

    def __init__(self, settings: PPOSettings, spaces: Mapping[str, PolicySpace], stack: tuple[int, ...]) -> None:
        s = self.settings = settings
        sizes = {key: space.observation for key, space in spaces.items()}
        self.observations = {key: RunningMeanStd(size, stack) for key, size in sizes.items()}
        self.centres = {} if s.normalize_observations else {key: Centre(size, stack) for key, size in sizes.items()}
        self.rewards = {key: RewardScale(s.num_envs, s.gamma, stack) for key in spaces}

    def observe(self, observations: Array, key: str) -> NDArray[np.float32]:
        """Return observations that an agent acts on, (*stack, n, d), normalised; they count in the statistics."""
        if self.settings.normalize_observations:
            self.observations[key].update(observations)
        return self.normalize(observations, key)

    def normalize(self, observations: Array, key: str) -> NDArray[np.float32]:
        """Return observations, (*stack, n, d), normalised by the present statistics."""
        if not self.settings.normalize_observations:
            return self.centres[key](observations).astype(np.float32)
        return self.observations[key].normalize(observations, clip=CLIP)

    def begin(self, observations: Array, key: str) -> None:
        """Set the offset of large observations by those after the first step, (*stack, n, d)."""
        if self.centres:
            self.centres[key].begin(observations)

    def scale(self, rewards: Array, done: NDArray[np.bool_], key: str) -> Array:
        """Return the rewards to learn from, (*stack, n), and update their scale."""
        scaled = rewards * self.settings.reward_scale
        return self.rewards[key](scaled, done, clip=CLIP) if self.settings.normalize_rewards else scaled

    def state_dict(self) -> dict[str, Any]:
        """Return the state, without the returns of running episodes."""
        return {
            "observations": _states_of(self.observations.items()),
            "centres": _states_of(self.centres.items()),
            "rewards": _states_of((key, scale.statistics) for key, scale in self.rewards.items()),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        for key, statistics in self.observations.items():
            statistics.load_state_dict(state["observations"][key])
        for key, centre in self.centres.items():
            centre.load_state_dict(state["centres"][key])
        for key, scale in self.rewards.items():
            scale.statistics.load_state_dict(state["rewards"][key])


def _states_of(parts: Iterable[tuple[str, RunningMeanStd | Centre]]) -> dict[str, Any]:
    return {key: part.state_dict() for key, part in parts}
