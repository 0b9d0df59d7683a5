"""A replay memory that is a uniform sample of all transitions so far, whatever their age."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from supple.agents.draws import Draws, set_states, sources_of, states_of
from supple.engine.storage.restoring import require_like
from supple.envs import StepResult

from .layout import ReplayLayout
from .replay import ReplayMemory
from .sampling import Integers


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
        folder, members: As in `ReplayMemory`.

    Attributes:
        seen: The number of transitions of each member so far, (members,), or (1,) outside a stack.
    """

    def __init__(
        self, capacity: int, num_envs: int, layout: ReplayLayout, draws: Draws, folder: Path | None = None,
        members: int = 0,
    ) -> None:  # fmt: skip
        self.each = layout.depth + 1  # rows of a transition
        super().__init__(capacity * self.each, 1, layout, folder, members)
        self.capacity, self.draws = capacity, draws
        self.num_envs, self.rings = num_envs, max(members, 1) * num_envs
        self.seen = np.zeros(max(members, 1), np.int64)
        self.current = np.zeros((self.rings, self.stack, *layout.frame), self.frames.dtype)

    @property
    def marks(self) -> Integers:
        return self.seen

    def sizes(self) -> Integers:
        return np.minimum(self.seen, self.capacity)

    def keep(self, share: float) -> None:
        """Forget all transitions, and begin a new sample.

        Raises ValueError for a share above 0, because a reservoir does not have the newest transitions."""
        if share:
            raise ValueError("a reservoir is a sample of all transitions, not of the newest: keep=0 begins a new one")
        self.seen[:] = 0
        self._ready = False

    def begin(self, observations: np.ndarray) -> None:
        self._newest(observations)
        self.current[:] = observations.reshape(self.current.shape)
        self.running = True

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

    # -- checkpoints ---------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return all transitions, and what decides which ones are kept later."""
        filled = int(self.sizes().max()) * self.each
        rows = {name: torch.from_numpy(column[:, :filled]) for name, column in self._columns().items()}
        seen = torch.from_numpy(self.seen.copy())
        return {"rows": rows, "seen": seen, "capacity": self.capacity, "draws": states_of(self.draws)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `state_dict` returned. Call `begin` before the next `add`.

        Raises ValueError if the state is of a memory with another size or other rows."""
        if state["capacity"] != self.capacity or len(state["seen"]) != len(self.seen):
            raise ValueError("the saved replay memory has another size: do not change --replay-size")
        self.seen[:] = state["seen"].numpy()
        columns, filled = self._columns(), int(self.sizes().max()) * self.each
        like = {name: torch.from_numpy(column[:, :filled]) for name, column in columns.items()}
        rows = require_like(state["rows"], like, "a row of the replay memory")
        for name, column in columns.items():
            column[:, :filled] = rows[name].numpy()
        set_states(self.draws, state["draws"])
        self.running = self._ready = False
