"""The sizes of what DQN observes: frames of an Atari game, or rows of numbers."""

import math
from typing import NamedTuple

from torch import Tensor

from supple.agents.offpolicy.replay import ReplayLayout
from supple.envs import Picture


class Sizes(NamedTuple):
    """What the replay memory keeps of a step, with the number of actions, and how an image lies in an observation."""

    layout: ReplayLayout
    picture: Picture | None = None

    def __str__(self) -> str:
        seen = f"vectors of {self.size} numbers"
        if self.layout.stack is not None:
            height, width = self.layout.frame
            seen = f"stacks of {self.layout.stack} frames of {height} × {width} pixels"
        elif self.picture:
            seen = str(self.picture)
        return f"{seen} and {self.layout.actions} actions"

    @property
    def size(self) -> int:
        """The numbers of an observation."""
        return math.prod(self.layout.observation)

    def split(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Return s and s′ from the frames of a sample, (…, n, stack, H, W) or (…, n, size) each."""
        if self.layout.stack is None:
            s, after = frames.unbind(-2)
            return s, after
        return frames[..., :-1, :, :], frames[..., 1:, :, :]
