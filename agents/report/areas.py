"""The shares of a fresh agent's areas under the learning curves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.engine.forks import FRESH
from supple.experiments.history.data import ComparisonData, RunData, Segment
from supple.metrics import Array, share_of_fresh, share_over_seeds
from supple.reports.tables.areas import areas
from supple.reports.tables.cells import MISSING, Form, Number, some_of
from supple.reports.tables.differences import variants_of
from supple.reports.tables.old_tasks import logged_returns
from supple.reports.tables.statistics import NAN, Spread
from supple.reports.tables.table import Table, TableRows


@dataclass(frozen=True, eq=False)
class ArmShares:
    """An arm's shares of a fresh agent with the same seeds: of the means over seeds, and of each seed.

    Attributes:
        tasks: The tasks for which the share is defined.
        by_task: The share in each of them.
        in_all: The overall share. Areas are summed over the tasks of each environment, and the shares of these sums
            are averaged over environments, because returns of different environments have different units.
    """

    tasks: tuple[Segment, ...]
    by_task: tuple[Number, ...]
    in_all: Number


def shares(data: ComparisonData, environments: int) -> tuple[dict[str, ArmShares], list[str]]:
    """Return the shares of a fresh agent, label → share, for arms whose variant has an arm `fresh`, and notes.

    The tasks that count begin at the first task switch or later, and not before the fork point. The return of the
    untrained policy is the one that the fresh agent's run logged in a task: `{"event": "untrained", "task", "return"}`.
    """
    share_of_arm: dict[str, ArmShares] = {}
    notes = []
    for labels in variants_of(data).values():
        if FRESH not in labels or len(labels) < 2:
            continue
        fresh = {run.seed: run for run in data.arms[labels[FRESH]]}
        tasks = tuple(task for task in data.first.tasks[1:] if task.start >= (data.fork_step or 0))
        if not any(run.of_kind("untrained") for run in fresh.values()):
            notes.append(f"no share of a fresh agent: {labels[FRESH]} did not log the return of the untrained policy")
        elif tasks:
            others = [label for arm, label in labels.items() if arm != FRESH]
            share_of_arm |= {label: _share(data.arms[label], fresh, tasks, environments) for label in others}
    return share_of_arm, notes


def _share(
    runs: Sequence[RunData], fresh: Mapping[int, RunData], tasks: tuple[Segment, ...], environments: int
) -> ArmShares:
    """Return one arm's shares. A seed counts if none of the three returns is missing."""
    at = [task.index for task in tasks]
    unknown = np.full(len(at), NAN)
    of_arm = np.stack([areas(run)[at] for run in runs])
    new = np.stack([areas(fresh[run.seed])[at] if run.seed in fresh else unknown for run in runs])
    begun = {seed: logged_returns(run, "untrained")[at] for seed, run in fresh.items()}
    untrained = np.stack([begun.get(run.seed, unknown) for run in runs])
    seeds = [run.seed for run in runs]
    places = np.array(at) % environments
    sums = (_sum_by_place(area, places) for area in (of_arm, new, untrained))
    by_task = (_over_seeds(seeds, *columns) for columns in zip(of_arm.T, new.T, untrained.T, strict=True))
    return ArmShares(tasks, tuple(by_task), _over_seeds(seeds, *sums))


def _sum_by_place(area: Array, places: NDArray[np.intp]) -> Array:
    """Return the sums over the tasks of each environment, of shape (seeds, environments)."""
    return np.stack([area[:, places == place].sum(axis=1) for place in np.unique(places)], axis=1)


def _over_seeds(seeds: Sequence[int], of_arm: Array, new: Array, untrained: Array) -> Number:
    share = share_over_seeds(of_arm, new, untrained)
    own = share_of_fresh(of_arm, new, untrained).reshape(len(seeds), -1).mean(axis=1)
    some = some_of(share.n, len(seeds))
    return Number(share.mean, share.low, share.high, Spread(own, seeds).by_seed, Form(decimals=2), some)


def shares_json(shares: ArmShares) -> dict[str, Any]:
    """Return the shares for scores.json."""
    return {
        "tasks": [task.index for task in shares.tasks],
        "in_all": _share_json(shares.in_all),
        "by_task": list(map(_share_json, shares.by_task)),
    }


def _share_json(share: Number) -> dict[str, Any]:
    bounded = share.low is not None and np.isfinite(share.low)
    ends = [share.low, share.high] if bounded else None
    return {"mean": share.mean, "interval": ends, "per_seed": list(share.by_seed.values())}


def share_table(share_of_arm: Mapping[str, ArmShares]) -> Table:
    """Return the table of the shares of a fresh agent, with tasks as rows and arms as columns."""
    shares = list(share_of_arm.values())
    tasks = shares[0].tasks
    rows: TableRows = [["in all", *(share.in_all for share in shares)]]
    for i, task in enumerate(tasks):
        rows.append([f"{task.index + 1}: {task.name or task.env}", *(share.by_task[i] for share in shares)])
    note = (
        "(A − A_random) / (A_fresh − A_random), each a mean over seeds. A is the area under the arm’s learning curve "
        "of a task, A_fresh that of an agent that begins with the task, A_random the mean return of the untrained "
        "policy. 1: learns as well as a fresh agent; 0: learns nothing. Only tasks from the first task switch on "
        "count. In all: share of sums over tasks, mean over environments. [ ]: 95 % interval, Fieller’s, of several "
        f"environments by the delta method; not bounded if A_fresh is not clearly above "
        f"A_random. {MISSING}: unfinished, or A_fresh is below A_random. Under the pointer: the share of each seed "
        "alone, whose mean is another number."
    )
    return Table("Share of a fresh agent", ["task", *share_of_arm], rows, note)
