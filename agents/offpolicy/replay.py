"""The replay memory of DQN and SAC: transitions of images or of vectors, each of which is stored once.

A transition of the usual memory holds s and s′, eight images of 84×84 of which seven are in its neighbours too:
56 GB for the 10⁶ transitions of Mnih et al. (2015), or 28 GB where s′ is the next row's s, as Stable-Baselines3
offers (`optimize_memory_usage`). One image a step is 7.06 GB, and that is what is kept here; stacks are put
together when they are sampled. A vector is a stack of one: s lies in one row, s′ in the next.
"""

import math
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

from ...experiments.alike import alike
from ...experiments.checkpoint import Rows
from ...experiments.machine import free_memory, size

Integers = NDArray[np.int64]
CHUNK = 16_384  # rows read at once from a checkpoint: 116 MB of 84×84 images


class Sample(NamedTuple):
    """Transitions (s, a, r, s′). Of stacks s = frames[:, :-1] and s′ = frames[:, 1:], both (size, stack, *frame);
    of observations that are one frame s = frames[:, 0] and s′ = frames[:, 1], both (size, *frame)."""

    frames: Tensor  # (size, stack + 1, *frame) as kept
    actions: Tensor  # (size,) int64, or (size, *action) float32
    rewards: Tensor  # (size,) float32
    terminated: Tensor  # (size,) bool: s′ is worth nothing, and its newest frame is zero


@dataclass(frozen=True)
class Layout:
    """Contents of one step in a memory, and how observations are made of it.

    frame: shape of what an environment shows at one moment, an image (H, W) or a vector (d,). dtype: of a frame
    as it is kept. stack: an observation is this many frames, oldest first, (stack, *frame); None: it is one frame,
    (*frame,). action: shape of a continuous action, kept in float32; (): an action is one of a number of them,
    kept in int16.

    Raises ValueError where a size is below 1.
    """

    frame: tuple[int, ...]
    dtype: DTypeLike
    stack: int | None = None
    action: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if min(*self.frame, *self.action, self.depth) < 1:
            raise ValueError(
                f"frames, stacks and actions need sizes of at least 1, "
                f"got frames of {self.frame}, a stack of {self.stack} and actions of {self.action}"
            )

    @property
    def depth(self) -> int:
        """Return the number of frames in an observation."""
        return 1 if self.stack is None else self.stack

    @property
    def observation(self) -> tuple[int, ...]:
        """Return the shape of an observation."""
        return self.frame if self.stack is None else (self.stack, *self.frame)

    @property
    def row(self) -> np.dtype[np.void]:
        """Return the columns: a frame, and what was done on seeing it."""
        return np.dtype(
            [
                ("frame", self.dtype, self.frame),
                ("action", np.float32 if self.action else np.int16, self.action),
                ("reward", np.float32),
                ("age", np.uint8),
                ("terminated", np.bool_),
                ("acted", np.bool_),
            ]
        )


class ReplayMemory:
    """The newest transitions of `num_envs` environments, at most ⌈capacity / num_envs⌉ of each.

    Every environment has a ring of rows of its own. A row is a frame and, once acted on, the action, its reward
    and whether it terminated the episode; the row after it holds the newest frame of s′. Two kinds of rows are
    never acted on: the last frame of a truncated episode, kept so that bootstrapping sees the true last
    observation (`optimize_memory_usage` of Stable-Baselines3 shows the next episode's first image instead), and
    the last frame before `begin` cut the episodes short. Each takes the place of one transition.

    Frames before an episode's first are zero, in the environments by contract and in samples by `age`: the
    number of frames of the same episode before this one, at most stack − 1. So no stack crosses an episode.

    Memory is taken as rows fill: ask `check_memory` first. With `folder` the frames lie in a nameless file there,
    which grows in the same way and is gone when the process is; RAM is then only its cache.

    capacity: transitions. Raises ValueError where capacity or num_envs is below 1.
    """

    def __init__(self, capacity: int, num_envs: int, layout: Layout, folder: Path | None = None) -> None:
        if min(capacity, num_envs) < 1:
            raise ValueError(
                f"a replay memory needs a capacity and environments of at least 1, got {capacity} and {num_envs}"
            )
        self.num_envs, self.layout, self.stack = num_envs, layout, layout.depth
        self.window = math.ceil(capacity / num_envs)  # rows of each environment that can be sampled
        self.rows = _rows(capacity, num_envs, layout)
        shape, row = (num_envs, self.rows), layout.row
        self.frames: np.ndarray = _frames((*shape, *layout.frame), row["frame"].base, folder)
        self.dtype = torch.from_numpy(np.empty(0, self.frames.dtype)).dtype  # of samples
        self.action: np.ndarray = np.zeros(shape, row["action"])
        self.reward: np.ndarray = np.zeros(shape, row["reward"])
        self.age: np.ndarray = np.zeros(shape, row["age"])
        self.terminated: np.ndarray = np.zeros(shape, row["terminated"])
        self.acted: np.ndarray = np.zeros(shape, row["acted"])
        self.end = np.zeros(num_envs, np.int64)  # rows so far; row i of environment e lies at [e, i % self.rows]
        self.count = 0
        self.running = False  # the newest rows wait for their action

    def __len__(self) -> int:
        """Return the number of transitions that can be sampled."""
        return self.count

    def begin(self, observations: np.ndarray) -> None:
        """Begin episodes: all environments were reset to these first observations, (num_envs, *layout.observation).

        Only the newest frame of each is kept: those before it are zero. Episodes that were running end here
        without termination; their last transitions bootstrap from the frames that are here already.
        Raises ValueError for observations of another shape or kind.
        """
        self._append(np.arange(self.num_envs), self._newest(observations), np.zeros(self.num_envs, np.uint8))
        self.running = True

    def add(
        self,
        actions: np.ndarray,
        rewards: NDArray[np.floating],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        final_obs: np.ndarray,
        obs: np.ndarray,
    ) -> None:
        """Store one step of every environment, as `envs.StepResult` has it: actions (num_envs, *layout.action), vectors
        (num_envs,), observations (num_envs, *layout.observation). Nothing of them is kept. Numbers of another
        floating type are rounded to the one that is kept.

        Raises ValueError before the first `begin`, or after `load_state_dict` without one, and for actions or
        observations of another shape or kind; nothing was stored then.
        """
        if not self.running:
            raise ValueError("the replay memory does not know what was acted on: call begin before add")
        last, newest = self._newest(final_obs), self._newest(obs)
        wanted, kept = (self.num_envs, *self.layout.action), self.action.dtype
        if actions.shape != wanted or actions.dtype.kind != kept.kind:
            raise ValueError(
                f"the replay memory of {self.num_envs} environments takes {kept} actions of {wanted}, "
                f"got {actions.dtype} of {actions.shape}"
            )
        every = np.arange(self.num_envs)
        at = (self.end - 1) % self.rows
        self.action[every, at], self.reward[every, at] = actions, rewards
        self.terminated[every, at], self.acted[every, at] = terminated, True
        self.count += self.num_envs
        age = np.minimum(self.age[every, at] + 1, self.stack - 1)
        if (cut := np.flatnonzero(truncated & ~terminated)).size:
            self._append(cut, last[cut], age[cut])
        self._append(every, newest, np.where(terminated | truncated, 0, age))

    def _newest(self, observations: np.ndarray) -> np.ndarray:
        """Return the newest frame of each observation, (num_envs, *frame)."""
        wanted, kept, given = (self.num_envs, *self.layout.observation), self.frames.dtype, observations.dtype
        if observations.shape != wanted or not (given == kept or given.kind == kept.kind == "f"):
            raise ValueError(
                f"the replay memory of {self.num_envs} environments takes {kept} observations of {wanted}, "
                f"got {given} of {observations.shape}"
            )
        return observations if self.layout.stack is None else observations[:, -1]

    def _append(self, envs: Integers, frames: np.ndarray, age: NDArray[np.uint8]) -> None:
        """A row not acted on yet for each of these environments."""
        row = self.end[envs]
        leaving = row - self.window - 1  # the row that can no longer be sampled
        self.count -= int(np.count_nonzero(self.acted[envs, leaving % self.rows] & (leaving >= 0)))
        at = row % self.rows
        self.frames[envs, at], self.age[envs, at], self.acted[envs, at] = frames, age, False
        self.end[envs] = row + 1

    def buffer(self, size: int, pin_memory: bool = False) -> Tensor:
        """Return an array for the frames of a sample, not initialized: (size, stack + 1, *frame)."""
        return torch.empty((size, self.stack + 1, *self.layout.frame), dtype=self.dtype, pin_memory=pin_memory)

    def sample(self, size: int, generator: torch.Generator, out: Tensor | None = None) -> Sample:
        """Return `size` transitions, each drawn uniformly and independently from all `len(self)`.

        The draws depend on the generator and on what was stored, on nothing else. out: receives the frames, a
        `buffer` or rows of one; new memory if not given.
        Raises ValueError if there is nothing to sample, or if `out` does not fit.
        """
        if not self.count:
            raise ValueError("the replay memory is empty: add transitions before sampling")
        shape = (size, self.stack + 1, *self.layout.frame)
        if out is None:
            out = self.buffer(size)
        elif out.shape != shape or out.dtype != self.dtype or not out.is_contiguous() or out.device.type != "cpu":
            raise ValueError(
                f"out must be a contiguous {self.dtype} CPU tensor of {shape}, got {out.dtype} {(*out.shape,)}"
            )
        env, row = self._draw(size, generator)
        at = env * self.rows + row % self.rows
        terminated = self.terminated.reshape(-1)[at]

        offsets = np.arange(1 - self.stack, 2)  # of a transition's frames from its row
        sources = env[:, None] * self.rows + (row[:, None] + offsets) % self.rows
        # Not mode="raise", which would gather into a buffer first.
        frames = out.numpy()
        np.take(self.frames.reshape(-1, *self.layout.frame), sources, axis=0, out=frames, mode="clip")
        blank = -offsets > self.age.reshape(-1)[at][:, None]  # before the episode began
        blank[:, -1] = terminated
        frames[blank] = 0
        actions = self.action.reshape(-1, *self.layout.action)[at]
        return Sample(
            out,
            torch.from_numpy(actions if self.layout.action else actions.astype(np.int64)),
            torch.from_numpy(self.reward.reshape(-1)[at]),
            torch.from_numpy(terminated),
        )

    def _draw(self, size: int, generator: torch.Generator) -> tuple[Integers, Integers]:
        """Environments and rows of transitions: uniform over all rows in the windows, rows without one redrawn."""
        first = np.maximum(self.end - 1 - self.window, 0)
        bounds = np.cumsum(self.end - 1 - first)  # the newest row is never acted on
        shift = self.end - 1 - bounds  # from a number among all environments' rows to the row

        def draw(n: int) -> tuple[Integers, Integers]:
            number = torch.randint(int(bounds[-1]), (n,), generator=generator).numpy()
            env = np.searchsorted(bounds, number, side="right")
            return env, number + shift[env]

        env, row = draw(size)
        while (bad := np.flatnonzero(~self.acted[env, row % self.rows])).size:
            env[bad], row[bad] = draw(bad.size)
        return env, row

    # -- checkpoints ---------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the rows of each environment, for `experiments.checkpoint`.

        They never change afterwards if `begin` is called before the next `add`, as the loop does.
        """
        return {"envs": [self._rows_of(env) for env in range(self.num_envs)]}

    def _rows_of(self, env: int) -> Rows:
        def read(start: int, stop: int) -> dict[str, Tensor]:
            first = start % self.rows
            at: slice | Integers = slice(first, first + stop - start)
            if first + stop - start > self.rows:  # around the ring's end: a copy, not a view
                at = np.arange(start, stop) % self.rows
            return {name: torch.from_numpy(column[env, at]) for name, column in self._columns().items()}

        end = int(self.end[env])
        return Rows(max(0, end - self.rows), end, read)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what `state_dict` gave, in chunks; `begin` has to follow before the next `add`.

        Raises ValueError if it is that of a memory of another size, or of other rows.
        """
        envs: list[Rows] = state["envs"]
        if len(envs) != self.num_envs or any(r.first != max(0, r.end - self.rows) for r in envs):
            raise ValueError(
                f"the saved replay memory is not one of {self.num_envs} environments with {self.rows} rows each: "
                f"keep --num-envs and --replay-size as they were"
            )
        self.count, self.running = 0, False
        for env, rows in enumerate(envs):
            for start in range(rows.first, rows.end, CHUNK):
                stop = min(start + CHUNK, rows.end)
                at = np.arange(start, stop) % self.rows
                columns = self._columns()
                like = {name: torch.from_numpy(column[env, : stop - start]) for name, column in columns.items()}
                chunk = alike(rows.read(start, stop), like, "a row of the replay memory")
                for name, column in columns.items():
                    column[env, at] = chunk[name].numpy()
            self.end[env] = rows.end
            window = np.arange(max(0, rows.end - 1 - self.window), rows.end) % self.rows
            self.count += int(np.count_nonzero(self.acted[env, window]))

    def _columns(self) -> dict[str, np.ndarray]:
        return {name: self.frames if name == "frame" else getattr(self, name) for name in self.layout.row.names or ()}


def _rows(capacity: int, num_envs: int, layout: Layout) -> int:
    """Rows of one ring: its share of the transitions, stack − 1 frames before them, and one after."""
    return math.ceil(capacity / num_envs) + layout.depth


def _frames(shape: tuple[int, ...], dtype: np.dtype[Any], folder: Path | None) -> np.ndarray:
    """Zeros that take no memory, or no disk, until they are written to."""
    if folder is None:
        return np.zeros(shape, dtype)
    with tempfile.TemporaryFile(dir=folder) as file:  # has no name; lives as long as it is mapped
        return np.asarray(np.memmap(file, dtype, "w+", shape=shape))


def bytes_needed(capacity: int, num_envs: int, layout: Layout) -> int:
    """Return what a full `ReplayMemory` of these arguments takes, in bytes: all its arrays together."""
    return num_envs * (_rows(capacity, num_envs, layout) * layout.row.itemsize + np.dtype(np.int64).itemsize)


def check_memory(needed: int, capacity: int, folder: Path | None = None, runs: int = 1) -> None:
    """Raise ValueError, in one line, if this machine cannot hold the memories of `runs` runs at a time.

    needed: bytes of one of them, from `bytes_needed`. capacity: transitions of one of them. With `folder` they
    lie on the disk there, otherwise in memory that is free. Nothing is allocated.
    """
    if folder is None:
        free, where, otherwise = free_memory(), "memory is free", "keep it in a file with --replay-folder DIR"
    elif folder.is_dir():
        free, where, otherwise = shutil.disk_usage(folder).free, f"{folder} is free", "choose another --replay-folder"
    else:
        raise ValueError(f"--replay-folder {folder} is no folder: create it, or choose another")
    if free < runs * needed:
        fits = float(f"{0.95 * capacity * free / (runs * needed):.2g}")  # the rest of the program needs memory too
        what, fewer = (f"{runs} runs at a time, each with a ", "lower --jobs, ") if runs > 1 else ("", "")
        raise ValueError(
            f"{what}replay of {capacity:,} transitions need{'s' * (runs == 1)} {size(runs * needed)}, "
            f"but {size(free)} of {where}: {fewer}lower --replay-size (to about {fits:,.0f}), or {otherwise}"
        )
