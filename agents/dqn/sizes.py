"""The sizes of what DQN observes: frames of an Atari game, or rows of numbers."""

from typing import NamedTuple

import numpy as np
from torch import Tensor

from supple.agents.offpolicy.replay import ReplayLayout
from supple.envs import Picture


class Pixels(NamedTuple):
    """The sizes of an Atari game: frames per observation, height and width, number of actions."""

    stack: int
    height: int
    width: int
    actions: int

    def __str__(self) -> str:
        return f"stacks of {self.stack} frames of {self.height} × {self.width} pixels and {self.actions} actions"

    @property
    def layout(self) -> ReplayLayout:
        """The layout of the replay memory."""
        return ReplayLayout((self.height, self.width), np.uint8, self.stack, actions=self.actions)

    def split(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Return s and s′ from the frames of a sample, (…, n, stack, H, W) each."""
        return frames[..., :-1, :, :], frames[..., 1:, :, :]

    @property
    def picture(self) -> Picture:
        """The place of the frames in the numbers of an observation."""
        return Picture(self.stack, self.height, self.width)

    @property
    def size(self) -> int:
        """The numbers of an observation."""
        return self.picture.size


class RowSizes(NamedTuple):
    """The sizes of an environment whose observations are rows of numbers (see `spaces.RowSpace`): length, number of
    actions, how an image lies in a row, and whether its numbers are bytes."""

    size: int
    actions: int
    picture: Picture | None = None
    bytes: bool = False

    def __str__(self) -> str:
        return f"{self.picture or f'vectors of {self.size} numbers'} and {self.actions} actions"

    @property
    def layout(self) -> ReplayLayout:
        """The layout of the replay memory."""
        return ReplayLayout((self.size,), np.uint8 if self.bytes else np.float32, actions=self.actions)

    def split(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Return s and s′ from the frames of a sample, (…, n, size) each."""
        s, after = frames.unbind(-2)
        return s, after
