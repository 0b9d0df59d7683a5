"""How long training will take, from the speed of its first measured minute."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from supple.engine.speed import SpeedMeter

if TYPE_CHECKING:
    from supple.experiments.queue.jobs import Job

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

    def job(self, job: "Job", step: int, jobs: "Sequence[Job]", processes: int) -> None:
        """Record the step of one of several runs. The other runs of its study are assumed to be equally fast."""
        meter = self.meters[job.folder]
        meter.update(step)
        if meter.seconds < MINUTE or job.path in self.announced:
            return
        self.announced.add(job.path)
        study = [other for other in jobs if other.path == job.path]
        speed = fmean(filter(None, (self.meters[other.folder].speed for other in study)))
        remaining = [other for other in study if other.open]
        steps = sum(max(0, steps_of(other, job) - self._steps_done(other)) for other in remaining)
        if not steps:
            return
        at_a_time = min(processes, len(remaining))
        several = f" in each of {at_a_time} runs at a time" if processes > 1 else ""
        name = f"{job.study}: " if job.study else ""
        time_left = f"{len(remaining)} runs: about {_format_time(steps / speed / at_a_time)}"
        self.say(f"{name}measured for a minute: {_format_speed(speed)} steps/s{several}; {time_left}")

    def _steps_done(self, job: "Job") -> int:
        start = job.comparison.fork_step if job.arm is not None else 0
        return max(0, self.meters[job.folder].step - start)


def steps_of(job: "Job", begun: "Job") -> int:
    """Return the steps that a run has from its beginning or its fork on; `begun` is one of its study with a folder."""
    from supple.engine.storage.run_directory import RunDirectory

    c = job.comparison
    if job.arm is None:
        return c.fork_step
    return int(c.stop_step or RunDirectory.open(begun.folder).config["total_steps"]) - c.fork_step


def _format_speed(speed: float) -> str:
    return f"{speed:,.0f}" if speed >= 10 else f"{speed:.2g}"


def _format_time(seconds: float) -> str:
    end = datetime.now() + timedelta(seconds=seconds)
    return f"{timedelta(seconds=round(seconds))} left, until {end:%a %H:%M}"
