"""How long training will take, from the speed of its first measured minute."""

from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from supple.engine.speed import SpeedMeter

if TYPE_CHECKING:
    from supple.experiments.queue.queue import Queue, QueuedRun

MINUTE = 60.0  # seconds over which a speed is measured


class Forecast:
    """A message about the remaining time of a run, or of each study, after its first minute of training."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.meters: defaultdict[Path, SpeedMeter] = defaultdict(SpeedMeter)
        self.announced: set[Path] = set()

    def run(self, folder: Path, step: int, end: int) -> None:
        """Record the step of a single run."""
        meter = self.meters[folder]
        meter.update(step)
        if meter.seconds >= MINUTE and folder not in self.announced and step < end:
            self.announced.add(folder)
            time_left = _format_time((end - step) / meter.speed)
            self.say(f"measured for a minute: {_format_speed(meter.speed)} steps/s; about {time_left}")

    def queued(self, run: "QueuedRun", step: int, queue: "Queue", processes: int) -> None:
        """Record the step of one of several runs. The other runs of its comparison are assumed to be equally fast.

        Args:
            run: The run.
            step: Its step.
            queue: All runs.
            processes: Number of runs at a time.
        """
        meter = self.meters[run.folder]
        meter.update(step)
        if meter.seconds < MINUTE or run.path in self.announced:
            return
        self.announced.add(run.path)
        together = [other for other in queue if other.path == run.path]
        speed = fmean(filter(None, (self.meters[other.folder].speed for other in together)))
        remaining = [other for other in together if other.open]
        steps = sum(max(0, count_steps(other, run) - self._steps_done(other)) for other in remaining)
        if not steps:
            return
        at_a_time = min(processes, len(remaining))
        several = f" in each of {at_a_time} runs at a time" if processes > 1 else ""
        name = f"{run.spec.labels.study}: " if run.spec.labels.study else ""
        time_left = f"{len(remaining)} runs: about {_format_time(steps / speed / at_a_time)}"
        self.say(f"{name}measured for a minute: {_format_speed(speed)} steps/s{several}; {time_left}")

    def _steps_done(self, run: "QueuedRun") -> int:
        return max(0, self.meters[run.folder].step - run.spec.start.step)


def count_steps(run: "QueuedRun", begun: "QueuedRun") -> int:
    """Return the steps that a run has from its beginning or its fork on; `begun` is one like it that has a folder."""
    from supple.engine.storage.run_directory import RunDirectory

    return int(run.spec.stop or RunDirectory.open(begun.folder).config["total_steps"]) - run.spec.start.step


def _format_speed(speed: float) -> str:
    return f"{speed:,.0f}" if speed >= 10 else f"{speed:.2g}"


def _format_time(seconds: float) -> str:
    end = datetime.now() + timedelta(seconds=seconds)
    return f"{timedelta(seconds=round(seconds))} left, until {end:%a %H:%M}"
