"""With what probabilities transitions of a replay memory are drawn: the setting `--replay-sampling`.

`recency` lets the probability of a transition fall linearly with its age, down to a floor:

    p(age) ∝ max(low, 1 − age / horizon)

The age is 0 for the newest row of each environment and grows by `num_envs` from one row to the one before, so that it
counts the transitions of the member. Rows without an action, such as the last frame of a truncated episode, count too,
and are redrawn. No tree is needed. Of the n rows of a ring, let the newest m lie above the floor, and let the weight
fall by d from one row to the next. The weights are the sum of

    low   for each of the n rows,    1 − low − d·(m − 1)   for each of the newest m,    d·(m − 1 − i)   for i < m

Numbers from the last term are distributed as the smaller one of two different uniform numbers below m. So each draw is
exact, and takes three random numbers whatever the size of the memory.

Source: Wu et al. 2026, "Sample Weight Decay", arXiv:2604.01913. `reservoir`: Vitter 1985 (see `ReservoirMemory`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supple.agents.draws import Draws, set_states, sources_of, states_of
from supple.engine.storage.restoring import require_like
from supple.envs import StepResult
from supple.metrics.arrays import Array
from supple.registry import Registry, bind, parse_call

from .replay import Integers, ReplayLayout, ReplayMemory, Uniform


@dataclass(frozen=True)
class Recency(Uniform):
    """Draw transitions linearly less often with age, down to a floor (Wu et al. 2026).

    Args:
        horizon: The age, in transitions of a member, at which the weight would be 0; at least 1.
        low: The smallest weight, in (0, 1]; that of the newest transition is 1.

    Raises:
        ValueError: A parameter is out of its range.
    """

    horizon: int = 80_000
    low: float = 0.1

    def __post_init__(self) -> None:
        if self.horizon < 1:
            raise ValueError(f"recency: horizon must be at least 1 transition, got {self.horizon}")
        if not 0.0 < self.low <= 1.0:
            raise ValueError(f"recency: low must lie in (0, 1], got {self.low}")

    def draw(self, count: int, source: torch.Generator, start: int, bounds: Integers) -> Tensor:
        """Return numbers of rows of a member, as `Uniform.draw` does."""
        rows = np.diff(bounds, prepend=start)
        newest, parts = self.parts(rows)
        edges = parts.cumsum()
        which, *uniform = torch.rand(3, count, generator=source, dtype=torch.float64).numpy()
        ring, part = np.divmod(np.minimum(edges.searchsorted(which * edges[-1], side="right"), len(edges) - 1), 3)
        most = np.where(part == 0, rows[ring], newest[ring])
        age = (uniform[0] * most).astype(np.int64)
        other = (uniform[1] * (most - 1)).astype(np.int64)
        age = np.where(part == 2, np.minimum(age, other + (other >= age)), age)
        return torch.from_numpy(bounds[ring] - 1 - age)

    def parts(self, rows: Integers) -> tuple[Integers, Array]:
        """Return the numbers m of rows above the floor, (num_envs,), and the sums of the three terms, (num_envs, 3).

        `rows` are the numbers n of rows of each ring, (num_envs,)."""
        fall = len(rows) / self.horizon
        newest = np.minimum(rows, np.ceil((1.0 - self.low) / fall).astype(np.int64))
        level = np.maximum(1.0 - self.low - fall * (newest - 1), 0.0)
        return newest, np.stack([self.low * rows, level * newest, fall / 2 * newest * (newest - 1)], 1)


@dataclass(frozen=True)
class Reservoir:
    """Draw from all transitions alike, of a uniform sample of those so far (see `ReservoirMemory`)."""


Sampling = Uniform | Reservoir
samplings: Registry[Callable[..., Sampling]] = Registry(
    "replay sampling", {"uniform": Uniform, "recency": Recency, "reservoir": Reservoir}
)


def parse_sampling(text: str) -> Sampling:
    """Return the sampling that a text such as "recency(horizon=40_000)" names.

    Raises ValueError for an unknown name and for wrong parameters."""
    call = parse_call(text)
    factory = samplings.get(call.name)
    return factory(**bind(factory, call.params, call.name))


class ReservoirMemory(ReplayMemory):
    """A uniform sample of the transitions of all environments of a member (Vitter 1985, algorithm R).

    The t-th transition is kept with probability capacity / t, and takes the place of a random one of those that are
    kept. Neighbours of a transition are not kept with it, so each is stored whole, in rows of its own: those of the
    stack of s, the last of which has the action, and that of s′. A vector takes twice the memory of `ReplayMemory`, and
    a stack of four images five times as much. Checkpoints contain the whole memory, because all of it may have changed.

    Args:
        capacity: Number of transitions of a member.
        num_envs: Number of environments of a member.
        layout: The contents of one step.
        draws: Draw which transitions are kept. In a stack, one generator for each member.
        folder, members, gamma: As in `ReplayMemory`.

    Attributes:
        seen: The number of transitions of each member so far, (members,), or (1,) outside a stack.
    """

    def __init__(
        self, capacity: int, num_envs: int, layout: ReplayLayout, draws: Draws, folder: Path | None = None,
        members: int = 0, gamma: float = 1.0,
    ) -> None:  # fmt: skip
        self.each = layout.depth + 1  # rows of a transition
        super().__init__(capacity * self.each, 1, layout, folder, members, gamma=gamma)
        self.capacity, self.draws = capacity, draws
        self.num_envs, self.rings = num_envs, max(members, 1) * num_envs
        self.seen = self.marks = np.zeros(max(members, 1), np.int64)
        self.current = np.zeros((self.rings, self.stack, *layout.frame), self.frames.dtype)

    def sizes(self) -> Integers:
        return np.minimum(self.seen, self.capacity)

    def keep(self, share: float) -> None:
        """Forget all transitions, and begin a new sample. A share above 0 is refused (see `Experience`)."""
        self.seen[:] = 0
        self._ready = False

    def begin(self, observations: np.ndarray) -> None:
        self._newest(observations)
        self.current[:] = observations.reshape(self.current.shape)

    def add(self, actions: np.ndarray, rewards: NDArray[np.floating], result: StepResult) -> None:
        last, _ = self._require_fit(actions, result)
        number = self.seen[:, None] + np.arange(1, self.num_envs + 1)  # of a transition, counted from 1
        slot = number - 1
        for source, numbers, slots in zip(sources_of(self.draws), number, slot, strict=True):
            if numbers[-1] > self.capacity:
                chance = torch.rand(self.num_envs, generator=source, dtype=torch.float64).numpy()
                np.copyto(slots, (chance * numbers).astype(np.int64), where=numbers > self.capacity)
        self.seen += self.num_envs
        if (taken := np.flatnonzero(slot < self.capacity)).size:
            member = taken // self.num_envs
            # of several in one place, the newest stays; NumPy does not say which one it would write last
            _, newest = np.unique((member * self.capacity + slot.flat[taken])[::-1], return_index=True)
            taken = taken[::-1][newest]
            member, row = taken // self.num_envs, slot.flat[taken] * self.each
            self.frames[member[:, None], row[:, None] + np.arange(self.stack)] = self.current[taken]
            self.frames[member, row + self.stack] = last[taken]
            at = member, row + self.stack - 1
            self.action[at], self.reward[at] = actions[taken], rewards[taken]
            self.terminated[at] = result.terminated[taken]
            self.age[at] = self.stack - 1
        self.current[:] = result.obs.reshape(self.current.shape)

    def _draw(self, size: int, sources: Sequence[torch.Generator]) -> tuple[Integers, Integers]:
        sizes = self.sizes().tolist()
        slots = [torch.randint(n, (size,), generator=source) for n, source in zip(sizes, sources, strict=True)]
        return np.arange(len(sizes)).repeat(size), torch.cat(slots).numpy() * self.each + self.stack - 1

    def _filled(self) -> dict[str, Tensor]:
        """Return the rows that are filled, as tensors in the memory of the columns."""
        filled = int(self.sizes().max()) * self.each
        return {name: torch.from_numpy(column[:, :filled]) for name, column in self.columns.items()}

    # -- checkpoints ---------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return all transitions, and what decides which ones are kept later."""
        seen = torch.from_numpy(self.seen.copy())
        return {"rows": self._filled(), "seen": seen, "capacity": self.capacity, "draws": states_of(self.draws)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `state_dict` returned. Call `begin` before the next `add`.

        Raises ValueError if the state is of a memory with another size or other rows."""
        if state["capacity"] != self.capacity or len(state["seen"]) != len(self.seen):
            raise ValueError("the saved replay memory has another size: do not change --replay-size")
        self.seen[:] = state["seen"].numpy()
        rows = self._filled()
        for name, saved in require_like(state["rows"], rows, "a row of the replay memory").items():
            rows[name].copy_(saved)
        set_states(self.draws, state["draws"])
        self._ready = False
