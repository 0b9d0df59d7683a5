"""Read the logs of other programs: CSV files, Stable-Baselines3's monitors, and TensorBoard's folders.

A CSV file has the columns `arm`, `seed`, `step` and `value`, and may have `task`. The arm and the seed of other logs
are in their paths, relative to the folder that holds all of them. The seed is the last number after the word seed, such
as `seed-3` or `seed=3`, else the last number that is a word of its own, as in `PPO_3`, else 0. The arm is the rest.
"""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from pandas import DataFrame, Series, concat, factorize, read_csv

from supple.engine.kinds import Kind
from supple.engine.spec import RunSpec
from supple.registry import did_you_mean, one_line
from supple.registry.errors import UsageError

from .data import ComparisonData, Episodes, RunData, Segment

COLUMNS = ["arm", "seed", "step", "value", "task"]
EVENTS, MONITOR = "tfevents", "monitor.csv"  # parts of the names of files
RETURN = "rollout/ep_rew_mean"  # Stable-Baselines3's mean return in TensorBoard
SEEDS = (re.compile(r"[-_., ]?seed[-_= ]?(\d+)", re.IGNORECASE), re.compile(r"(?:^|[-_./ ])(\d+)(?=/|$)"))
MISSING = ["", "NA", "NaN", "nan"]  # values of a row without one; an arm or a task may have these names
MOST_TAGS = 8  # in a message
KIND = Kind("logs", "logs of other programs", "", "", "supple.reports.logs:LOGS", unit="steps")


@dataclass(frozen=True)
class LogSettings:
    """What is known of a run of another program: its seed, and what its values are."""

    seed: int
    value: str


class LogSpec(RunSpec):
    """The specification of a run of another program, which supple cannot train."""

    @property
    def kind_row(self) -> Kind:
        return KIND


def read_others(paths: Sequence[Path], tag: str | None = None) -> ComparisonData:
    """Return the runs in logs of other programs, whose values are read as the returns of episodes.

    A task ends with the last row before the first one of the next task, and the last one with the longest run. Later
    rows of a task are evaluations of an old one: the performance on it after another task is the mean of its values in
    the last 15 % of that task. Rows whose value is not finite are left out.

    Args:
        paths: CSV files, monitors, TensorBoard files, or folders with monitors or else TensorBoard files.
        tag: The name of TensorBoard's scalar; None for the mean return of Stable-Baselines3.

    Raises:
        UsageError: A path has no logs, a file cannot be read, two runs have one arm and seed, or tasks have no order.
    """
    files = dict.fromkeys(file for path in paths for file in _files_of(path))
    logs: dict[Path, list[Path]] = {}
    for file in files:
        stem = file.name.removesuffix(MONITOR).rstrip(".")  # a number: one of the copies of the environment
        alone = EVENTS not in file.name and stem and not stem.isdecimal()
        logs.setdefault(file.parent / stem if alone else file.parent, []).append(file)
    if tag and not any(EVENTS in file.name for file in files):
        raise UsageError(f"--tag {tag}: none of these logs is of TensorBoard")
    places = _places([run for run, own in logs.items() if run not in own])
    tables: list[DataFrame] = []
    what: set[str] = set()  # the names of what was logged
    for run, own in logs.items():
        if run in own:
            rows, value = _read_csv(run), "value"
        elif EVENTS in own[0].name:
            rows, value = _read_board(run, tag or RETURN), tag or RETURN
        else:
            rows, value = _read_monitors(own), "return"
        tables.append(rows.assign(**places.get(run, {})))
        what.add(value)
    path = Path(os.path.commonpath([path.absolute() for path in paths]))
    return _gather(path, tables, what.pop() if len(what) == 1 else "value")


def _files_of(path: Path) -> list[Path]:
    """Return a file, or the monitors below a folder, or else its TensorBoard files."""
    found = [path] if path.is_file() else sorted(path.rglob(f"*{MONITOR}")) or sorted(path.rglob(f"*{EVENTS}*"))
    if not found:
        raise UsageError(f"{path} is no file, and no folder with {MONITOR} or TensorBoard files")
    return found


def _places(runs: Sequence[Path]) -> dict[Path, dict[str, Any]]:
    """Return the columns arm, seed and task of each run, by the rule of this module.

    Raises UsageError if two runs share arm and seed."""
    root = Path(os.path.commonpath([run.absolute().parent for run in runs])) if runs else Path()
    places: dict[tuple[str, int], Path] = {}
    for run in runs:
        text, seed = run.absolute().relative_to(root).as_posix(), 0
        if found := [*SEEDS[0].finditer(text)] or [*SEEDS[1].finditer(text)]:
            text, seed = text[: found[-1].start()] + text[found[-1].end() :], int(found[-1][1])
        place = re.sub("/[-_., /]+", "/", text).strip("/-_., ") or root.name, seed
        if place in places:
            raise UsageError(f"{places[place]} and {run} are both arm {place[0]}, seed {seed}: rename one of them")
        places[place] = run
    return {run: {"arm": arm, "seed": seed, "task": ""} for (arm, seed), run in places.items()}


def _read_csv(file: Path) -> DataFrame:
    try:
        types: Any = {"arm": str, "value": float, "task": str}
        rows = read_csv(file, dtype=types, keep_default_na=False, na_values={"value": MISSING})
        if not rows["arm"].all():
            raise ValueError("a row has no arm")
        tasks = rows.get("task", Series("", rows.index))
        return rows.assign(task=tasks).astype({"seed": int, "step": int})[COLUMNS]
    except (KeyError, ValueError) as error:
        wanted = "the columns arm, seed, step, value and perhaps task"
        raise UsageError(f"{file} needs {wanted}, with numbers in seed, step and value ({one_line(error)})") from error


def _read_monitors(files: Sequence[Path]) -> DataFrame:
    """Return the rows of a run with one monitor for each copy of its environment, in the order of time."""
    parts = []
    for file in files:
        try:
            with file.open() as lines:
                began = json.loads(lines.readline().removeprefix("#"))["t_start"]
                part = read_csv(lines, dtype=float)
            parts.append(DataFrame({"time": part["t"] + began, "step": part["l"], "value": part["r"]}))
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"{file} is not a monitor of Stable-Baselines3 ({one_line(error)})") from error
    rows = concat(parts).sort_values("time", kind="stable") if len(parts) > 1 else parts[0]
    rows = rows if len(rows) else DataFrame({"step": [0], "value": [np.nan]})
    return rows.assign(step=rows["step"].cumsum().astype(int))


def _read_board(folder: Path, tag: str) -> DataFrame:
    from tensorboard.backend.event_processing import event_accumulator  # type: ignore[import-untyped]

    board = event_accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    if tag not in (tags := board.Tags()["scalars"]):
        some = f"choose one with --tag ({', '.join(tags[:MOST_TAGS])})" if tags else "it has none at all"
        raise UsageError(f"{folder} has no scalar {tag!r}{did_you_mean(tag, tags)}: {some}")
    return DataFrame([(event.step, event.value) for event in board.Scalars(tag)], columns=["step", "value"])


def _gather(path: Path, read: Sequence[DataFrame], value: str) -> ComparisonData:
    """Return the runs of these rows. Arms have the order in which they come first."""
    every = concat([rows[COLUMNS] for rows in read])
    known = every[np.isfinite(every["value"])].sort_values("step", kind="stable")
    if not (end := int(known["step"].max() if len(known) else 0)):
        raise UsageError("these logs have no value at a step above 0")
    arms: dict[str, list[RunData]] = {arm: [] for arm in every["arm"].unique()}
    found = dict(iter(known.groupby(["arm", "seed"])))
    for (arm, seed), rows in found.items():
        arms[arm].append(_run(path, f"{arm}, seed {seed}", LogSettings(int(seed), value), rows, end))
    orders = [[*map(attrgetter("name"), run.tasks)] for runs in arms.values() for run in runs]
    if odd := [order for order in orders if order != max(orders, key=len)[: len(order)]]:
        raise UsageError(f"all runs need one order of tasks, but there are {max(orders, key=len)} and {odd[0]}")
    without = [key for key in every[["arm", "seed"]].drop_duplicates().itertuples(index=False) if key not in found]
    notes = [f"{arm}, seed {seed}: it has no value" for arm, seed in without]
    return ComparisonData(path, {arm: runs for arm, runs in arms.items() if runs}, notes=notes)


def _run(path: Path, name: str, settings: Any, rows: DataFrame, end: int) -> RunData:
    """Return a run of a stream that ends at step `end`."""
    steps, values = (rows[column].to_numpy(np.float64) for column in ("step", "value"))
    places, order = factorize(rows["task"])
    begins = [steps[places == i][0] for i in range(len(order))]
    starts = [0, *(int(steps[steps < begin].max(initial=0)) for begin in begins[1:]), end]
    if any(start >= after for start, after in pairwise(starts)):
        raise UsageError(f"{name}: tasks {', '.join(order)} must begin one after another, each with its first row")
    tasks = tuple(Segment(i, *ends, order[i]) for i, ends in enumerate(pairwise(starts)))
    episodes = Episodes(steps, places, values, np.full(len(steps), np.nan), np.zeros(len(steps), np.bool_))
    run = RunData(path, LogSpec(KIND.name, settings), settings.seed, tasks, episodes, [], [])
    for task in (task for task in tasks if run.last_step >= task.window):
        place = {"event": "evaluation", "step": int(min(task.end, steps[-1])), "task": task.index}
        for old in tasks[: task.index + 1]:
            run.events.append({**place, "evaluated": old.index, "return": run.final_return(task, old)})
    return run
