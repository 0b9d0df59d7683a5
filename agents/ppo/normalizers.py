"""How PPO normalises what environments show: running statistics of each of them, which go on when it returns."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.agents.normalize import Centre, RewardScale, RunningMeanStd
from supple.metrics.arrays import Array

from .network import PolicySpace
from .settings import PPOSettings

Rows = NDArray[Any]  # observations as environments show them, (*stack, n, d)
CLIP = 10.0  # of normalised observations and rewards


class Normalizers:
    """The running statistics of each environment, or the one set that all share, by key.

    Pixels are not normalised: of rows with an image, only the numbers after it are.

    Args:
        settings: Say what is normalised, and the number of environments of a member.
        spaces: Key → the space of the environments.
        stack: (members,), or () for one agent.

    Attributes:
        observations: The statistics of observations.
        centres: The offsets of large observations, if these are vectors and not normalised; otherwise empty.
        rewards: The scales of rewards.
    """

    def __init__(self, settings: PPOSettings, spaces: Mapping[str, PolicySpace], stack: tuple[int, ...]) -> None:
        s = self.settings = settings
        self.pixels = {key: space.observation - space.vector for key, space in spaces.items()}
        sizes = {key: space.vector for key, space in spaces.items()}
        self.observations = {key: RunningMeanStd(size, stack) for key, size in sizes.items()}
        centred = {key: size for key, size in sizes.items() if not (s.normalize_observations or self.pixels[key])}
        self.centres = {key: Centre(size, stack) for key, size in centred.items()}
        self.rewards = {key: RewardScale(s.num_envs, s.gamma, stack) for key in spaces}

    def observe(self, observations: Rows, key: str) -> Rows:
        """Return observations that an agent acts on, (*stack, n, d), normalised; they count in the statistics."""
        if self._normalizes(observations, key):
            self.observations[key].update(observations[..., self.pixels[key] :])
        return self.normalize(observations, key)

    def normalize(self, observations: Rows, key: str) -> Rows:
        """Return observations, (*stack, n, d), normalised by the present statistics: as float32, but images of uint8
        as they are."""
        if not self._normalizes(observations, key):
            return self.centres[key](observations).astype(np.float32) if key in self.centres else observations
        if not (pixels := self.pixels[key]):
            return self.observations[key].normalize(observations, clip=CLIP)
        numbers = self.observations[key].normalize(observations[..., pixels:], clip=CLIP)
        return np.concatenate([observations[..., :pixels], numbers], -1)

    def _normalizes(self, observations: Rows, key: str) -> bool:
        return self.settings.normalize_observations and observations.shape[-1] > self.pixels[key]

    def moves(self, key: str) -> bool:
        """Return whether large observations of an environment are moved."""
        return key in self.centres and bool(self.centres[key].offset.any())

    def begin(self, observations: Rows, key: str) -> None:
        """Set the offset of large observations by those after the first step, (*stack, n, d)."""
        if key in self.centres:
            self.centres[key].begin(observations)

    def scale(self, rewards: Array, done: NDArray[np.bool_], key: str) -> Array:
        """Return the rewards to learn from, (*stack, n), and update their scale."""
        scaled = rewards * self.settings.reward_scale
        return self.rewards[key](scaled, done, clip=CLIP) if self.settings.normalize_rewards else scaled

    def state_dict(self) -> dict[str, Any]:
        """Return the state, without the returns of running episodes."""
        return {name: {key: part.state_dict() for key, part in parts.items()} for name, parts in self._parts().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        for name, parts in self._parts().items():
            for key, part in parts.items():
                part.load_state_dict(state[name][key])

    def _parts(self) -> dict[str, Mapping[str, RunningMeanStd | Centre]]:
        scales = {key: scale.statistics for key, scale in self.rewards.items()}
        return {"observations": self.observations, "centres": self.centres, "rewards": scales}
