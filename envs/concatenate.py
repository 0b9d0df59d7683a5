"""Several vectors of environments as one vector of all their rows."""

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from .vector import Envs, StepResult, join_episodes


class ConcatenatedVector:
    """Vectors one after the other as one vector, with the contract and the results of `Vector`.

    For copies that cannot be made as one vector, such as `AtariVector`s, whose sticky actions are drawn for all of
    their games.

    Args:
        parts: The vectors, at least one, which this vector closes. Their spaces are the same.
    """

    def __init__(self, parts: Sequence[Envs]) -> None:
        self.parts = parts
        self.single_observation_space: Any = parts[0].single_observation_space
        self.single_action_space: Any = parts[0].single_action_space
        ends = accumulate((part.num_envs for part in parts), initial=0)
        self._rows = [slice(*pair) for pair in pairwise(ends)]
        self.num_envs = self._rows[-1].stop

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        """Reset all environments with one seed each, and return their observations, (n, *shape)."""
        return np.concatenate([part.reset(seeds[rows]) for part, rows in self._both()])

    def step(self, actions: np.ndarray) -> StepResult:
        """Step all environments with `actions`, (n, *action shape)."""
        results = [part.step(actions[rows]) for part, rows in self._both()]
        obs, reward, terminated, truncated = (np.concatenate([result[i] for result in results]) for i in range(4))
        episodes = join_episodes([rows.start for rows in self._rows], [result.episodes for result in results])
        final_obs = np.concatenate([result.final_obs for result in results]) if episodes else obs
        return StepResult(obs, reward, terminated, truncated, final_obs, episodes)

    def progress(self, steps: int) -> None:
        """Set the number of steps of the task so far, over all environments of each part (see `Vector.progress`)."""
        for part in self.parts:
            part.progress(steps)

    def freeze(self, rows: Sequence[int]) -> None:
        """Do not step these environments any more until the next `reset`, as `Vector` does."""
        for part, own in self._both():
            part.freeze([row - own.start for row in rows if own.start <= row < own.stop])

    def close(self) -> None:
        """Close all environments, even if one of them raises."""
        with ExitStack() as stack:
            for part in self.parts:
                stack.callback(part.close)

    def _both(self) -> list[tuple[Envs, slice]]:
        return list(zip(self.parts, self._rows, strict=True))
