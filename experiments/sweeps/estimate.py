"""Estimate how long a sweep will take, by training one run of each study for a short time."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from ...engine.runs import build, create, train
from ...engine.settings import RunSettings
from ...engine.speed import measure_speed
from ..queue.jobs import Job

SECONDS, LEAST = 60.0, 5.0  # spent on all studies together, and at least on each


@dataclass(frozen=True)
class Estimate:
    """The remaining work of a study: its runs, their steps in total, and the steps per second of one run alone.

    The runs of arms are `runs`, and the runs from which they continue are `trunks`.
    """

    study: str
    runs: int
    trunks: int
    steps: int
    speed: float

    def hours(self, jobs: int) -> float:
        """Return the hours that this takes with `jobs` runs at a time, if they do not slow each other."""
        return self.steps / self.speed / 3600 / jobs


def estimates(jobs: Sequence[Job]) -> Iterator[Estimate]:
    """Yield an estimate for each study with runs left, by training its first run for an equal share of a minute.

    Each study gets at least 5 s. A run that ends sooner is timed as a whole. Nothing is left on the disk.
    """
    left = [(study, list(own)) for study, own in groupby((job for job in jobs if job.open), lambda job: job.study)]
    for study, own in left:
        settings = _alone(own[0])
        work = build(own[0].comparison.kind, settings, lambda line: None)
        work.close()
        c = own[0].comparison
        total, fork = c.stop_step or work.tasks[-1].end, c.fork_step
        steps = sum(fork if job.arm is None else total - fork for job in own)
        trunks = sum(job.arm is None for job in own)
        yield Estimate(
            study, len(own) - trunks, trunks, steps, _speed(own[0], settings, max(LEAST, SECONDS / len(left)))
        )


def _alone(job: Job) -> RunSettings:
    """Return the settings of a run without a trunk, and without hooks, which might never fire in so short a time."""
    first = next(iter(job.settings.of_seeds(job.seeds).values()), job.settings)
    return replace(first, hook=())


def _speed(job: Job, settings: RunSettings, seconds: float) -> float:
    """Return the steps per second of a run, excluding its first stretch, in which functions may be compiled."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        create(path, job.comparison.algorithm, settings, "supple sweep --dry-run", lambda line: None)
        meter = measure_speed(lambda watch: train(path, watch, lambda line: None), seconds)
    return meter.speed if meter.seconds >= seconds else meter.step / (time.monotonic() - began)
