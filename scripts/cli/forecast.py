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
        self.meters: dict[Path, SpeedMeter] = defaultdict(SpeedMeter)  # by the folder of the run
        self.said: set[Path] = set()

    def run(self, folder: Path, step: int, end: int) -> None:
        """Record the step of a single run."""
        meter = self.meters[folder]
        meter.update(step)
        if meter.seconds >= MINUTE and folder not in self.said and step < end:
            self.said.add(folder)
            left = _time((end - step) / meter.speed)
            self.say(f"measured for a minute: {_number(meter.speed)} steps/s; about {left}")

    def job(self, job: "Job", step: int, jobs: "Sequence[Job]", processes: int) -> None:
        """Record the step of one of several runs. The other runs of its study are assumed to be equally fast."""
        meter = self.meters[job.folder]
        meter.update(step)
        if meter.seconds < MINUTE or job.path in self.said:
            return
        self.said.add(job.path)
        study = [each for each in jobs if each.path == job.path]
        speed = fmean(filter(None, (self.meters[each.folder].speed for each in study)))
        own = [each for each in study if each.open]
        left = sum(max(0, steps_of(each, job) - self._done(each)) for each in own)
        if not left:
            return
        several = f" in each of {min(processes, len(own))} runs at a time" if processes > 1 else ""
        name = f"{job.study}: " if job.study else ""
        left_for = f"{len(own)} runs: about {_time(left / speed / min(processes, len(own)))}"
        self.say(f"{name}measured for a minute: {_number(speed)} steps/s{several}; {left_for}")

    def _done(self, job: "Job") -> int:
        start = job.comparison.fork_step if job.arm is not None else 0
        return max(0, self.meters[job.folder].step - start)


def steps_of(job: "Job", begun: "Job") -> int:
    """Return the steps that a run has from its beginning or its fork on; `begun` is one of its study with a folder."""
    from supple.engine.storage.run_directory import RunDirectory

    c = job.comparison
    if job.arm is None:
        return c.fork_step
    return int(c.stop_step or RunDirectory.open(begun.folder).config["total_steps"]) - c.fork_step


def _number(speed: float) -> str:
    return f"{speed:,.0f}" if speed >= 10 else f"{speed:.2g}"


def _time(seconds: float) -> str:
    end = datetime.now() + timedelta(seconds=seconds)
    return f"{timedelta(seconds=round(seconds))} left, until {end:%a %H:%M}"
