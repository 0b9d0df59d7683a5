"""Write how each arm learned new tasks and what it kept of old ones, the numbers of docs/results/old_tasks.md.

    python docs/old_tasks.py runs/nine --rows docs/results/worlds/nine-rooms-old.jsonl

There is a row for each arm and seed of a comparison with --eval-tasks past or all. `returns` are the mean returns after
each task (down) on each task (across), and `scaled` the same on the report's scale, on which 0 is random actions and 1
the fresh agent right after the task. The other numbers are means over tasks on this scale:

    new        right after each task but the first
    learned    right after each task but the last
    kept       on these tasks, after the last
    forgotten  learned − kept

These are of the environments of the first cycle that have returned:

    first      right after the first time
    before     right before they return
    lost       first − before
    again      right after the second time
    more       again − first

`minus_none` has each of them minus that of `none` with the same seed.
"""

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.engine.forks import FRESH
from supple.experiments import load
from supple.metrics import t_interval


def measure(scaled: ArrayLike, environments: int) -> dict[str, float]:
    """Return the numbers of one run from its scaled performance, (tasks, tasks): [j, i] is on task i after task j."""
    S = np.asarray(scaled, dtype=np.float64)
    after, end = S.diagonal(), S[-1]
    found = {"new": after[1:], "learned": after[:-1], "kept": end[:-1], "forgotten": (after - end)[:-1]}
    if 1 < environments < len(S):
        place = np.arange(min(environments, len(S) - environments))
        first, before, again = (S[place + later, place] for later in (0, environments - 1, environments))
        found |= {"first": first, "before": before, "lost": first - before, "again": again, "more": again - first}
    return {name: round(float(values.mean()), 4) for name, values in found.items()}


def rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each arm and seed of a comparison."""
    scores = load(folder).scores
    done = min(map(finished, scores["arms"].values()))
    if done < 2:
        raise SystemExit(f"{folder}: all arms need two finished tasks, but one has {done}")
    none: dict[int, dict[str, float]] = {}
    for arm in sorted(scores["arms"], key=lambda arm: arm != "none"):
        own = scores["arms"][arm]
        if arm == FRESH:  # knows no old tasks
            continue
        old = own["old_tasks"]
        for seed, returns, scaled in zip(own["seeds"], old["performance"], old["scaled"], strict=True):
            matrices = {"returns": as_list(returns, done, 2), "scaled": as_list(scaled, done, 4)}
            found = measure(matrices["scaled"], len(scores["environments"]))
            none.setdefault(seed, found)
            minus = {name: None if arm == "none" else round(found[name] - none[seed][name], 4) for name in found}
            yield {"arm": arm, "seed": seed, **found, "minus_none": minus, **matrices}


def finished(arm: dict[str, Any]) -> int:
    """Return how many tasks all seeds of an arm have finished."""
    scaled = np.asarray(arm["old_tasks"]["scaled"], dtype=np.float64)
    return int(np.isfinite(scaled.diagonal(axis1=1, axis2=2)).all(axis=0).sum())


def as_list(matrix: ArrayLike, done: int, decimals: int) -> list[list[float | None]]:
    """Return a matrix up to the last finished task, with None for what was not measured."""
    rounded = np.round(np.asarray(matrix, dtype=np.float64)[:done, :done], decimals)
    return [[None if np.isnan(value) else value for value in row] for row in rounded.tolist()]


def show(found: list[dict[str, Any]]) -> None:
    """Print means over seeds and their 95 % intervals, and the same of the differences to `none`."""
    for arm in dict.fromkeys(row["arm"] for row in found):
        own = [row for row in found if row["arm"] == arm]
        print(f"{arm}, {len(own)} seeds")
        for name in [name for name, value in own[0].items() if isinstance(value, float)]:
            both = [[row[name] for row in own]]
            both += [] if arm == "none" else [[row["minus_none"][name] for row in own]]
            print(f"    {name:10}", "   minus none: ".join(map(as_text, both)))


def as_text(values: list[float]) -> str:
    around = t_interval(values)
    return f"{fmean(values):.2f}" + (f" [{around[0]:.2f}, {around[1]:.2f}]" if around else "")


if __name__ == "__main__":
    parser = ArgumentParser(description="Print what arms learned and kept.")
    parser.add_argument("folder", type=Path, help="folder of a comparison")
    parser.add_argument("--rows", type=Path, help="file for the rows, JSON Lines")
    options = parser.parse_args()
    written = list(rows(options.folder))
    show(written)
    if options.rows:
        options.rows.write_text("".join(json.dumps(row) + "\n" for row in written), encoding="utf-8")
