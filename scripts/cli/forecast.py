"""How long training will take, from the speed of its first measured minute."""

import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from supple.experiments.queue.queue import Queue, QueuedRun

MINUTE = 60.0  # seconds over which a speed is measured


class Speeds:
    """The speed of each run, in steps per second. The first stretch of a run is left out: it may compile something."""

    def __init__(self) -> None:
        self.seen: dict[Path, tuple[int, float, int, float]] = {}  # step and time: where the measurement began, and now
        self.begun: set[Path] = set()

    def update(self, folder: Path, step: int) -> float:
        """Note the step of a run, and return the seconds for which it has been measured."""
        now = time.monotonic()
        if folder not in self.begun:
            self.begun.add(folder)
            return 0.0
        first, start = self.seen[folder][:2] if folder in self.seen else (step, now)
        self.seen[folder] = (first, start, step, now)
        return now - start

    def of(self, folders: Iterable[Path]) -> float:
        """Return the mean speed of those of these runs that have been measured."""
        found = [self.seen[folder] for folder in folders if folder in self.seen]
        return fmean((step - first) / (now - start) for first, start, step, now in found if now > start)


class Forecast:
    """A message about the remaining time of a run, or of each study, after its first minute of training."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say, self.speeds = say, Speeds()
        self.said: set[Path] = set()

    def run(self, folder: Path, step: int, end: int) -> None:
        """Record the step of a single run."""
        if self.speeds.update(folder, step) >= MINUTE and folder not in self.said and step < end:
            self.said.add(folder)
            speed = self.speeds.of([folder])
            self.say(f"measured for a minute: {_number(speed)} steps/s; about {_time((end - step) / speed)}")

    def queued(self, run: "QueuedRun", step: int, queue: "Queue", processes: int) -> None:
        """Record the step of one of several runs. The other runs of its comparison are assumed to be equally fast.

        Args:
            run: The run.
            step: Its step.
            queue: All runs.
            processes: Number of runs at a time.
        """
        if self.speeds.update(run.folder, step) < MINUTE or run.path in self.said:
            return
        self.said.add(run.path)
        together = [other for other in queue if other.path == run.path]
        speed, unfinished = self.speeds.of(other.folder for other in together), [o for o in together if o.open]
        left = sum(max(0, steps_of(other, run) - self._done(other)) for other in unfinished)
        if not left:
            return
        several = f" in each of {min(processes, len(unfinished))} runs at a time" if processes > 1 else ""
        name = f"{run.spec.labels.study}: " if run.spec.labels.study else ""
        left_for = f"{len(unfinished)} runs: about {_time(left / speed / min(processes, len(unfinished)))}"
        self.say(f"{name}measured for a minute: {_number(speed)} steps/s{several}; {left_for}")

    def _done(self, run: "QueuedRun") -> int:
        return self.speeds.seen[run.folder][2] - run.spec.start.step if run.folder in self.speeds.seen else 0


def steps_of(run: "QueuedRun", begun: "QueuedRun") -> int:
    """Return the steps that a run has from its beginning or its fork on; `begun` is one like it that has a folder."""
    from supple.engine.storage.run_directory import RunDirectory

    return int(run.spec.stop or RunDirectory.open(begun.folder).config["total_steps"]) - run.spec.start.step


def _number(speed: float) -> str:
    return f"{speed:,.0f}" if speed >= 10 else f"{speed:.2g}"


def _time(seconds: float) -> str:
    end = datetime.now() + timedelta(seconds=seconds)
    return f"{timedelta(seconds=round(seconds))} left, until {end:%a %H:%M}"
