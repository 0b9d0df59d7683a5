"""The progress of runs: bars in a terminal, and elsewhere one line per minute, task switch and intervention.

Lines read losses and returns from the logs of the run, so they work for runs of other processes too.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

PERIOD = 60.0  # seconds between two lines about a run
TAIL = 65_536  # bytes at the end of a log that are searched for its last numbers
SHOWN = {"episodes.jsonl": ("return",), "metrics.jsonl": ("train_loss", "online_loss", "val_loss", "loss")}
EPISODES = 10  # the last ones, whose mean return is shown


@contextmanager
def display(screen: Console, runs: int = 1, ended: int = 0) -> "Iterator[Bars | Lines]":
    """Show bars within this block, or print lines if the screen cannot draw them again in place.

    Args:
        runs: Total number of runs. If there are several, one bar counts them, and the others show the active runs.
        ended: Number of runs that had ended before.
    """
    if not screen.is_terminal or screen.is_dumb_terminal:
        yield Lines(screen)
        return
    with make_bars(screen) as drawn:
        yield Bars(drawn, runs, ended)


def make_bars(screen: Console, passing: bool = False) -> Progress:
    """Return bars with a description, a count, the elapsed and the remaining time.

    passing: They vanish at the end, and are shown in terminals only."""
    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TimeRemainingColumn(),
    )  # fmt: skip
    return Progress(*columns, console=screen, transient=passing, disable=passing and not screen.is_terminal)


@contextmanager
def show_progress_bar(screen: Console, description: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a passing bar, and give the function that advances it by one of `total`."""
    with make_bars(screen, passing=True) as drawn:
        task = drawn.add_task(description, total=total)
        yield lambda: drawn.advance(task)


class Bars:
    def __init__(self, bars: Progress, runs: int, ended: int) -> None:
        self.bars = bars
        self.whole = bars.add_task("finished runs", total=runs, completed=ended) if runs > 1 else None
        self.tasks: dict[Path, TaskID] = {}
        self.ended: set[Path] = set()

    def update(self, label: str, folder: Path, step: int, end: int) -> None:
        """Show that the run in `folder` is at step `step` of `end`."""
        if folder in self.ended:
            return
        if folder not in self.tasks:
            self.tasks[folder] = self.bars.add_task(label, total=end)
        self.bars.update(self.tasks[folder], completed=step)
        if step >= end and self.whole is not None:
            self.ended.add(folder)
            self.bars.remove_task(self.tasks.pop(folder))
            self.bars.advance(self.whole)


@dataclass
class LastLine:
    """The last line about a run: its step, its time, and the byte up to which events had been read."""

    step: int
    time: float = field(default_factory=time.monotonic)
    events: int = 0


class Lines:
    def __init__(self, screen: Console) -> None:
        self.screen = screen
        self.last_lines: dict[Path, LastLine] = {}

    def update(self, label: str, folder: Path, step: int, end: int) -> None:
        if folder not in self.last_lines:  # events before a resume were printed before
            self.last_lines[folder] = LastLine(step, events=_size(folder / "events.jsonl") if step else 0)
        last, now = self.last_lines[folder], time.monotonic()
        events, last.events = _read_rows(folder / "events.jsonl", last.events)
        for event in events:
            self._say(f"{label}: step {event.get('step', 0):,}: {_describe_event(event)}")
        if now - last.time >= PERIOD or step >= end:
            self._say(f"{label}: {', '.join(_describe_state(folder, last, step, end, now))}")
            last.step, last.time = step, now

    def _say(self, line: str) -> None:
        self.screen.print(Text(line), soft_wrap=True)
        self.screen.file.flush()


def _describe_state(folder: Path, last: LastLine, step: int, end: int, now: float) -> Iterator[str]:
    yield f"{step:,} of {end:,} ({step / end:.0%})"
    if step > last.step:
        speed = (step - last.step) / (now - last.time)
        yield f"{speed:,.0f} steps/s"
        if step < end:
            yield f"{timedelta(seconds=round((end - step) / speed))} left"
    for log, names in SHOWN.items():
        rows, _ = _read_rows(folder / log, max(0, _size(folder / log) - TAIL))
        values = [(name, row[name]) for row in rows for name in names if isinstance(row.get(name), float)]
        if values:
            name, value = values[-1]
            if name == "return":
                value = fmean(value for _, value in values[-EPISODES:])
            yield f"{name} {value:.4g}"
            return


def _describe_event(event: dict[str, Any]) -> str:
    """Return a description of an event: `task 1, hopper`, `fire@task on actor`."""
    if event.get("event") == "task":
        return ", ".join(filter(None, [f"task {event.get('task')}", str(event.get("env") or event.get("name") or "")]))
    if event.get("event") == "intervention":
        of = f" of seeds {', '.join(map(str, event['seeds']))}" if "seeds" in event else ""
        return f"{event.get('hook')} on {event.get('learner')}{of}"
    if event.get("event") == "diverged":
        return f"seed {event.get('seed')} diverged: {event.get('reason')}"
    return str(event.get("event")) + (f", seed {event['seed']}" if "seed" in event else "")


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # not written yet, or the folder was removed, which the run itself will report
        return 0


def _read_rows(file: Path, start: int) -> tuple[list[dict[str, Any]], int]:
    """Return the rows of a log from byte `start` on, and the byte up to which its lines are complete."""
    if _size(file) <= start:
        return [], start
    with file.open("rb") as stream:
        stream.seek(start)
        whole, newline, _ = stream.read().rpartition(b"\n")
    rows = []
    for line in whole.splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:  # the first one, if `start` lies within a line
            continue
    return rows, start + len(whole) + len(newline)
