"""The replay memory of DQN and SAC, which stores each image or vector once.

A usual replay memory stores s and s′ of each transition: eight images of 84×84, seven of which are also in neighbouring
transitions. That takes 56 GB for the 10⁶ transitions of Mnih et al. (2015), or 28 GB if s′ is the s of the next row
(`optimize_memory_usage` of Stable-Baselines3). This memory stores one image per step, which takes 7.06 GB, and builds
the stacks when it samples. A vector is a stack of one: s is in one row, s′ in the next.
"""

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

from supple.agents.draws import Draws, sources_of
from supple.engine.storage.checkpoint import Rows
from supple.engine.storage.restoring import require_like
from supple.envs import StepResult

Integers = NDArray[np.int64]
CHUNK = 16_384  # rows read at once from a checkpoint: 116 MB of 84×84 images


class Sample(NamedTuple):
    """Transitions (s, a, r, s′), or windows of several steps, of which r is the discounted sum of the rewards.

    For images that are stacked, s = frames[:, :stack] and s′ = frames[:, -stack:], both (size, stack, *frame). For
    observations of one frame, s = frames[:, 0] and s′ = frames[:, 1], both (size, *frame). In samples of several
    members, each tensor has the members as its first axis: (members, size, …)."""

    frames: Tensor  # (size, stack + 1, *frame) as kept, (size, 2 · stack, *frame) for windows
    actions: Tensor  # (size,) int64, or (size, *action) float32
    rewards: Tensor  # (size,) float32: Σ γᵏ·r of the m steps of a window, k < m
    discounts: Tensor  # (size,) float32: γᵐ, or 0 after a termination: the newest frame of s′ is zero then


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
    """

    frame: tuple[int, ...]
    dtype: DTypeLike
    stack: int | None = None
    action: tuple[int, ...] = ()
    actions: int = 2**15

    @property
    def depth(self) -> int:
        """The number of frames in an observation."""
        return 1 if self.stack is None else self.stack

    @property
    def observation(self) -> tuple[int, ...]:
        """The shape of an observation."""
        return self.frame if self.stack is None else (self.stack, *self.frame)


@dataclass(frozen=True)
class Uniform:
    """Draw from all transitions alike."""

    def draw(self, count: int, source: torch.Generator, start: int, bounds: Integers) -> Tensor:
        """Return numbers of rows of a member, (count,) int64, independent of one another.

        Args:
            count: How many.
            source: The member's generator.
            start: The number of the first row of its first ring. Those of a ring ascend with time.
            bounds: For each of its rings, the number after the one of its last row, (num_envs,).
        """
        return torch.randint(start, int(bounds[-1]), (count,), generator=source)


class ReplayMemory:
    """The newest transitions of `num_envs` environments, at most ⌈capacity / num_envs⌉ of each.

    Every environment has its own ring of rows. A row has a frame and, after the agent has acted, the action, its reward
    and whether it terminated the episode. The next row has the newest frame of s′. Two kinds of rows have no action:
    the last frame of a truncated episode, which is stored so that bootstrapping uses the true last observation
    (`optimize_memory_usage` of Stable-Baselines3 uses the next episode's first image instead), and the last frame
    before `begin` interrupted the episodes. Each takes the place of one transition.

    Frames before the first of an episode are zero: in the environments by contract, in samples by means of `age`, the
    number of earlier frames of the same episode, at most stack − 1. So no stack spans two episodes.

    Memory is only used as rows fill. With `folder`, the frames are in a nameless file
    there, which grows in the same way and is deleted when the process ends. RAM is then only its cache.

    Windows of `steps` steps are made when they are sampled. They end earlier, with m < steps, where an episode
    terminates or is truncated, and at the newest row, where the rewards after it are not known yet. s′ is the
    observation after their last step, so that all of them bootstrap rightly, by γᵐ. (Dopamine drops the transitions
    from which no whole window remains before a truncation.)

    For a stack of agents, it is the memories of all members side by side. The rows of a step are those of the members'
    environments, one member after the other.

    Args:
        capacity: Number of transitions of a member.
        num_envs: Number of environments of a member.
        layout: The contents of one step.
        folder: Where the file with the frames is made. None: the frames are in RAM.
        members: Number of agents in the stack; 0 if there is no stack.
        sampling: With what probabilities transitions are drawn.
        steps: The most steps of a window.
        gamma: The discount factor of a step.

    Attributes:
        rings: Number of environments of all members.
        start: The row of each ring from which on transitions are kept, (rings,); those before are forgotten.
        marks: The numbers that `keep` writes, the same count for each member after one another.
        factors: By what rewards are multiplied when they are sampled, (members,), or (1,) outside a stack. None: they
            are not.
    """

    def __init__(
        self, capacity: int, num_envs: int, layout: ReplayLayout, folder: Path | None = None, members: int = 0,
        sampling: Uniform | None = None, steps: int = 1, gamma: float = 1.0,
    ) -> None:  # fmt: skip
        self.num_envs, self.layout, self.stack, self.members = num_envs, layout, layout.depth, members
        self.sampling, self.steps = sampling or Uniform(), steps
        self.powers = np.power(gamma, np.arange(steps + 1)).astype(np.float32)
        self.after = layout.depth if steps > 1 else 1  # frames of s′ that a sample has besides those of s
        # of a transition's frames from its row, those of s and the others; in a longer window these come later
        self.offsets = np.concatenate([np.arange(1 - layout.depth, 1), np.arange(2 - self.after, 2)])
        self.rings = max(members, 1) * num_envs
        self.window = math.ceil(capacity / num_envs)  # rows of each ring that can be sampled
        self.rows = self.window + layout.depth  # with depth − 1 frames before those, and one after
        shape = (self.rings, self.rows)
        action = np.float32 if layout.action else np.promote_types(np.int16, np.min_scalar_type(-layout.actions))
        self.frames = _allocate_frames((*shape, *layout.frame), np.dtype(layout.dtype), folder)
        self.action: np.ndarray = np.zeros((*shape, *layout.action), action)
        self.reward = np.zeros(shape, np.float32)
        self.age = np.zeros(shape, np.uint8)
        self.terminated, self.acted = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        self.columns: dict[str, np.ndarray] = {
            "frame": self.frames, "action": self.action, "reward": self.reward, "age": self.age,
            "terminated": self.terminated, "acted": self.acted,
        }  # fmt: skip
        self.end = np.zeros(self.rings, np.int64)  # rows so far; row i of ring e lies at [e, i % self.rows]
        self.start = self.marks = np.zeros(self.rings, np.int64)
        self.factors: NDArray[np.float32] | None = None
        self._ready = False  # whether it is known that every member has a transition

    @property
    def ready(self) -> bool:
        """Whether every member has a transition that can be sampled."""
        if not self._ready:
            # three rows of an environment always have one with an action
            self._ready = (found := bool(self.sizes().all())) and self.window >= 3
            return found
        return True

    def sizes(self) -> Integers:
        """Return the number of transitions of each member that can be sampled, (members,), or (1,) outside a stack."""
        counts = [len(self._acted(ring, first)) for ring, first in enumerate(self._first().tolist())]
        return np.array(counts).reshape(-1, self.num_envs).sum(1)

    def _first(self) -> Integers:
        """Return the oldest row of each ring that can be sampled, (rings,)."""
        return np.maximum(self.end - 1 - self.window, self.start)

    def _acted(self, ring: int, first: int) -> Integers:
        """Return the rows of a ring from one on that have an action, oldest first."""
        rows = np.arange(first, self.end[ring])
        return rows[self.acted[ring, rows % self.rows]]

    def keep(self, share: float) -> None:
        """Forget all transitions but the newest of each environment, rounded up.

        Nothing is copied: frames before the first transition that is kept remain for its stack.

        Args:
            share: The share of the present transitions that is kept, in [0, 1].
        """
        for ring, first in enumerate(self._first().tolist()):
            acted = self._acted(ring, first)
            forgotten = len(acted) - math.ceil(share * len(acted) - 1e-9)  # 0.1 · 30 is 3.000…
            self.start[ring] = acted[forgotten - 1] + 1 if forgotten else first
        self._ready = False

    def make_finite(self, members: Sequence[int]) -> None:
        """Replace actions and rewards of these members of a stack, which have diverged, by 0: losses are finite then.

        A diverged network chose the actions, and finite rewards may have infinite losses."""
        own = np.array(members, int)
        for column in (self.action, self.reward):
            column.reshape(max(self.members, 1), -1)[own] = 0

    def begin(self, observations: np.ndarray) -> None:
        """Begin episodes: all environments were reset to these observations, (rings, *layout.observation).

        Only the newest frame of each is stored, because those before it are zero. Running episodes end here without
        termination, and their last transitions bootstrap from frames that are already stored.
        Raises ValueError if the observations have the wrong shape or kind of dtype.
        """
        self._append(np.arange(self.rings), self._newest(observations), np.zeros(self.rings, np.uint8))

    def add(self, actions: np.ndarray, rewards: NDArray[np.floating], result: StepResult) -> None:
        """Store a copy of one step of every environment, whose episodes `begin` began.

        Floating-point numbers are converted to the stored type.

        Args:
            actions: (rings, *layout.action).
            rewards: Those to learn from, which may be clipped, (rings,).
            result: The result of the step, with observations (rings, *layout.observation).

        Raises:
            ValueError: Actions or observations have the wrong shape or kind of dtype. Nothing is stored then.
        """
        last, newest = self._require_fit(actions, result)
        terminated, truncated = result.terminated, result.truncated
        envs = np.arange(self.rings)
        at = (self.end - 1) % self.rows
        self.action[envs, at], self.reward[envs, at] = actions, rewards
        self.terminated[envs, at], self.acted[envs, at] = terminated, True
        age = np.minimum(self.age[envs, at] + 1, self.stack - 1)
        if (cut := np.flatnonzero(truncated & ~terminated)).size:
            self._append(cut, last[cut], age[cut])
        self._append(envs, newest, np.where(terminated | truncated, 0, age))

    def _require_fit(self, actions: np.ndarray, result: StepResult) -> tuple[np.ndarray, np.ndarray]:
        """Return the newest frames of a step's observations, (rings, *frame) each. Raises ValueError as `add`."""
        last, newest = self._newest(result.final_obs), self._newest(result.obs)
        wanted, kept = (self.rings, *self.layout.action), self.action.dtype
        if actions.shape != wanted or actions.dtype.kind != kept.kind:
            raise ValueError(
                f"the replay memory of {self.rings} environments takes {kept} actions of {wanted}, "
                f"got {actions.dtype} of {actions.shape}"
            )
        return last, newest

    def _newest(self, observations: np.ndarray) -> np.ndarray:
        """Return the newest frame of each observation, (rings, *frame)."""
        wanted, kept, dtype = (self.rings, *self.layout.observation), self.frames.dtype, observations.dtype
        if observations.shape != wanted or not (dtype == kept or dtype.kind == kept.kind == "f"):
            raise ValueError(
                f"the replay memory of {self.rings} environments takes {kept} observations of {wanted}, "
                f"got {dtype} of {observations.shape}"
            )
        return observations if self.layout.stack is None else observations[:, -1]

    def _append(self, envs: Integers, frames: np.ndarray, age: NDArray[np.uint8]) -> None:
        """Append a row without an action for each of these environments."""
        row = self.end[envs]
        at = row % self.rows
        self.frames[envs, at], self.age[envs, at], self.acted[envs, at] = frames, age, False
        self.end[envs] = row + 1

    def buffer(self, size: int, pin_memory: bool = False) -> Tensor:
        """Return an uninitialised tensor for the frames of a sample, (size, frames, *frame).

        In a stack, the rows of all members follow one another: (members · size, frames, *frame)."""
        shape = (max(self.members, 1) * size, self.stack + self.after, *self.layout.frame)
        return torch.empty(shape, dtype=torch.from_numpy(self.frames[:0]).dtype, pin_memory=pin_memory)

    def sample(self, size: int, draws: Draws, out: Tensor | None = None) -> Sample:
        """Return `size` transitions of each member, drawn with replacement from all that it has.

        They depend only on the member's generator and on the contents of its memory, and equal those of its memory
        alone.

        Args:
            size: The number of transitions.
            draws: Draws them. In a stack, one generator for each member.
            out: Receives the frames, a `buffer` or the first rows of one. By default, new memory is allocated.

        Raises:
            ValueError: The memory is empty.
        """
        if not self.ready:
            raise ValueError("the replay memory is empty: add transitions before sampling")
        sources = sources_of(draws)
        out = self.buffer(size) if out is None else out
        ring, row = self._draw(size, sources)
        first = ring * self.rows
        at = end = first + row % self.rows
        rewards, discounts = self.reward.reshape(-1)[at], self.powers[1:]
        places = row[:, None] + self.offsets
        if self.steps > 1:
            rewards, length = self._windows(first, row)
            discounts = self.powers[length]
            end = first + (row + length - 1) % self.rows
            places[:, self.stack :] += length[:, None] - 1
        places = first[:, None] + places % self.rows
        # mode="raise" would gather into a temporary buffer first.
        frames = out.numpy()
        np.take(self.frames.reshape(-1, *self.layout.frame), places, axis=0, out=frames, mode="clip")
        for part in (slice(self.stack), slice(self.stack, None))[: self.after] if self.stack > 1 else ():
            newest = places[:, part][:, -1]
            back = self.offsets[part][-1] - self.offsets[part]
            frames[:, part][back > self.age.reshape(-1)[newest][:, None]] = 0  # before the episode began
        if self.factors is not None:
            rewards = (rewards.reshape(len(self.factors), -1) * self.factors[:, None]).ravel()
        terminated = self.terminated.reshape(-1)[end]
        frames[terminated, -1] = 0
        actions = self.action.reshape(-1, *self.layout.action)[at]
        sample = Sample(
            out,
            torch.from_numpy(actions if self.layout.action else actions.astype(np.int64)),
            torch.from_numpy(rewards),
            torch.from_numpy(discounts * ~terminated),
        )
        return Sample(*(tensor.unflatten(0, (self.members, size)) for tensor in sample)) if self.members else sample

    def _windows(self, first: Integers, row: Integers) -> tuple[NDArray[np.float32], Integers]:
        """Return Σ γᵏ·r and the number of steps m, (size,) each, of the windows that begin at these rows of rings.

        first: The places of the first rows of these rings in all columns, (size,)."""
        at = first[:, None] + (row[:, None] + np.arange(self.steps)) % self.rows
        inside = self.acted.reshape(-1)[at]
        inside[:, 1:] &= ~self.terminated.reshape(-1)[at[:, :-1]]
        np.logical_and.accumulate(inside, 1, out=inside)
        return (self.reward.reshape(-1)[at] * self.powers[:-1]).sum(1, where=inside), inside.sum(1)

    def _draw(self, size: int, sources: Sequence[torch.Generator]) -> tuple[Integers, Integers]:
        """Return rings and rows of transitions, (members · size,) each.

        They are drawn from the rows of a member's rings, with rows without action redrawn."""
        bounds = (self.end - 1 - self._first()).cumsum()  # the newest row never has an action
        shift = self.end - 1 - bounds  # from a number among the rows of all rings to the row
        of_members = bounds.reshape(-1, self.num_envs)
        acted = self.acted.reshape(-1)

        def draw(sizes: Sequence[int]) -> tuple[Integers, Integers]:
            numbers, start = [], 0
            for n, source, own in zip(sizes, sources, of_members, strict=True):
                numbers.append(self.sampling.draw(n, source, start, own))
                start = int(own[-1])
            number = torch.cat(numbers).numpy()
            ring = bounds.searchsorted(number, side="right")
            return ring, number + shift[ring]

        ring, row = draw([size] * len(sources))
        while not (good := acted[ring * self.rows + row % self.rows]).all():
            bad = np.flatnonzero(~good)
            ring[bad], row[bad] = draw(np.bincount(bad // size, minlength=len(sources)).tolist())
        return ring, row

    # -- checkpoints ---------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the rows of each environment, in a stack of all members, for `engine.storage.checkpoint`.

        They do not change afterwards if `begin` is called before the next `add`, as the loop does.
        """
        envs = [self._rows_of(ring) for ring in range(self.rings)]
        return {"envs": envs, "start": torch.from_numpy(self.start.copy())}

    def _rows_of(self, ring: int) -> Rows:
        def read(start: int, stop: int) -> dict[str, Tensor]:
            at = np.arange(start, stop) % self.rows
            return {name: torch.from_numpy(column[ring, at]) for name, column in self.columns.items()}

        end = int(self.end[ring])
        return Rows(max(0, end - self.rows), end, read)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `state_dict` returned, in chunks. Call `begin` before the next `add`.

        Raises ValueError if the state is of a memory with another size or other rows.
        """
        rings: list[Rows] = state["envs"]
        if len(rings) != self.rings or any(r.first != max(0, r.end - self.rows) for r in rings):
            raise ValueError(
                f"the saved replay memory does not have {self.rings} environments with {self.rows} rows each: "
                f"do not change --num-envs or --replay-size"
            )
        for ring, rows in enumerate(rings):
            for start in range(rows.first, rows.end, CHUNK):
                stop = min(start + CHUNK, rows.end)
                at = np.arange(start, stop) % self.rows
                like = {name: torch.from_numpy(column[ring, : stop - start]) for name, column in self.columns.items()}
                chunk = require_like(rows.read(start, stop), like, "a row of the replay memory")
                for name, column in self.columns.items():
                    column[ring, at] = chunk[name].numpy()
            self.end[ring] = rows.end
        self.start[:] = state["start"].numpy()
        self._ready = False


def _allocate_frames(shape: tuple[int, ...], dtype: np.dtype[Any], folder: Path | None) -> np.ndarray:
    """Return an array of zeros that takes no memory, or disk, until it is written to."""
    if folder is None:
        return np.zeros(shape, dtype)
    with tempfile.TemporaryFile(dir=folder) as file:  # has no name; lives as long as it is mapped
        return np.asarray(np.memmap(file, dtype, "w+", shape=shape))
