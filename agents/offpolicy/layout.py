"""The layout of one step in a replay memory, and the transitions that are drawn from it."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike
from torch import Tensor


class Sample(NamedTuple):
    """Transitions (s, a, r, s′).

    For images that are stacked, s = frames[:, :-1] and s′ = frames[:, 1:], both (size, stack, *frame). For observations
    of one frame, s = frames[:, 0] and s′ = frames[:, 1], both (size, *frame). In samples of several members, each
    tensor has the members as its first axis: (members, size, …)."""

    frames: Tensor  # (size, stack + 1, *frame) as kept
    actions: Tensor  # (size,) int64, or (size, *action) float32
    rewards: Tensor  # (size,) float32
    terminated: Tensor  # (size,) bool: s′ is worth nothing, and its newest frame is zero


@dataclass(frozen=True)
class ReplayLayout:
    """The contents of one step in a replay memory.

    Attributes:
        frame: The shape of a frame, an image (H, W) or a vector (d,).
        dtype: The type of a stored frame.
        stack: The number of frames in an observation, oldest first, (stack, *frame). None: an observation is one
            frame, (*frame,).
        action: The shape of a continuous action, stored as float32. (): actions are discrete, stored as int16, or as a
            larger integer type if there are more than 32,768.
        actions: The number of discrete actions.

    Raises:
        ValueError: A size is below 1.
    """

    frame: tuple[int, ...]
    dtype: DTypeLike
    stack: int | None = None
    action: tuple[int, ...] = ()
    actions: int = 2**15

    def __post_init__(self) -> None:
        if min(*self.frame, *self.action, self.depth, self.actions) < 1:
            raise ValueError(
                f"sizes of frames, stacks and actions must be at least 1, "
                f"got frames of {self.frame}, a stack of {self.stack} and actions of {self.action}"
            )

    @property
    def depth(self) -> int:
        """The number of frames in an observation."""
        return 1 if self.stack is None else self.stack

    @property
    def observation(self) -> tuple[int, ...]:
        """The shape of an observation."""
        return self.frame if self.stack is None else (self.stack, *self.frame)

    def rows(self, capacity: int, num_envs: int) -> int:
        """Return the rows of one ring: its share of the transitions, depth − 1 frames before them, and one after."""
        return math.ceil(capacity / num_envs) + self.depth

    @property
    def row(self) -> np.dtype[np.void]:
        """The columns of a row: a frame, the action that followed, and its result."""
        number = np.promote_types(np.int16, np.min_scalar_type(-self.actions))
        return np.dtype(
            [
                ("frame", self.dtype, self.frame),
                ("action", np.float32 if self.action else number, self.action),
                ("reward", np.float32),
                ("age", np.uint8),
                ("terminated", np.bool_),
                ("acted", np.bool_),
            ]
        )
