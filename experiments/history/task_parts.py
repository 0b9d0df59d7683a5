"""What a run did in equal parts of each of its tasks."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from supple.metrics.arrays import Array
from supple.registry.errors import UsageError

from .data import RunData
from .logs import Row

WHICH = ("last", "lowest", "highest")  # what a row has of a metric


def parts_of(run: RunData, count: int = 1, metrics: Sequence[str] = (), limit: int | None = None) -> Iterator[Row]:
    """Yield a row for each part of each task, of those that the run has begun.

    A row has `task`, `env` (or the task's name), `part`, `episodes` (the number that ended there), `return` (their
    mean), `rollout_return` (`mean_by_rollout`, only for PPO), `reached` (the share of them that were shorter than
    `limit`) and, for each metric, `NAME.last`, `NAME.lowest` and `NAME.highest`. A number that was not measured is NaN.

    Args:
        run: The history of the run.
        count: Number of parts, at least 1.
        metrics: Names in metrics.jsonl.
        limit: Steps after which the environment truncates an episode that has not reached its goal.

    Raises:
        UsageError: `count` is below 1.
    """
    if count < 1:
        raise UsageError(f"parts: needs at least 1 part of each task, got {count}")
    rollout, episodes = rollout_of(run), run.episodes
    series = {name: run.series(name) for name in metrics}
    for task in run.tasks:
        if task.start >= run.last_step:
            return
        for part in range(count):
            start, end = (task.start + (task.end - task.start) * k // count for k in (part, part + 1))
            inside = (episodes.steps > start) & (episodes.steps <= end)
            returns = episodes.returns[inside]
            row: Row = {"task": task.index, "env": task.env or task.name, "part": part, "episodes": len(returns)}
            row["return"] = _mean(returns)
            if rollout:
                row["rollout_return"] = mean_by_rollout(episodes.steps[inside] - task.start, returns, rollout)
            if limit is not None:
                row["reached"] = _mean(episodes.lengths[inside] < limit)
            for name, (steps, values) in series.items():
                own = values[(steps > start) & (steps <= end)]
                found = (own[-1], own.min(), own.max()) if own.size else (np.nan,) * 3
                row |= {f"{name}.{which}": float(x) for which, x in zip(WHICH, found, strict=True)}
            yield row


def rollout_of(run: RunData) -> int:
    """Return the environment steps of a rollout over all copies, or 0 for agents without rollouts."""
    return getattr(run.settings, "rollout_steps", 0) * getattr(run.settings, "num_envs", 1)


def mean_by_rollout(steps: Array, returns: Array, rollout: int) -> float:
    """Return the mean over rollouts of the mean return of the episodes that ended in them, or NaN without an episode.

    This is the number that C-CHAIN's table has (Tang et al. 2025, arXiv 2506.00592). A rollout with one long episode
    counts as much as one with many short ones.

    Args:
        steps, returns: (episodes,), the step of the task at which each episode ended, and its return. Each task begins
            a rollout.
        rollout: Environment steps of a rollout.
    """
    _, places = np.unique((steps - 1) // rollout, return_inverse=True)
    count = np.bincount(places)
    return _mean(np.bincount(places, returns) / count) if count.size else float("nan")


def _mean(values: NDArray[np.generic]) -> float:
    return float(values.mean()) if values.size else float("nan")
