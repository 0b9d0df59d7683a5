"""How long the runs of a sweep would take, by training one of each study for a moment."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from .jobs import Job
from .runs import build, create, train
from .settings import RunSettings

SECONDS, LEAST = 60.0, 5.0  # that are spent on all studies, and on each at least


@dataclass(frozen=True)
class Estimate:
    """Hold what is left to train of a study: runs, their steps in all, and steps a second of one run by itself."""

    study: str
    runs: int
    steps: int
    speed: float

    def hours(self, jobs: int) -> float:
        """Return the hours that it takes with so many runs at a time, if none slows another."""
        return self.steps / self.speed / 3600 / jobs


class _Enough(Exception):
    """The moment is over."""


def estimates(jobs: Sequence[Job]) -> Iterator[Estimate]:
    """Yield an estimate for each study that has runs left, whose first run is trained for its share of a minute.

    A run that ends sooner is measured by its whole time. Nothing is left on the disk."""
    left = [(study, list(own)) for study, own in groupby((job for job in jobs if job.open), lambda job: job.study)]
    for study, own in left:
        settings = _alone(own[0])
        work = build(own[0].comparison.kind, settings, lambda line: None)
        work.close()
        c = own[0].comparison
        total, fork = c.stop_step or work.tasks[-1].end, c.fork_step
        steps = sum(fork if job.arm is None else total - fork for job in own)
        yield Estimate(study, len(own), steps, _speed(own[0], settings, max(LEAST, SECONDS / len(left))))


def _alone(job: Job) -> RunSettings:
    """Return the settings of a run that has no trunk, and no hooks, which could have no moment in it."""
    first = next(iter(job.settings.of_seeds(job.seeds).values()), job.settings)
    return replace(first, hook=())


def _speed(job: Job, settings: RunSettings, seconds: float) -> float:
    """Return the steps a second of a run, without those of its first moments: something may be compiled then."""
    seen: list[tuple[float, int]] = []

    def watch(step: int) -> None:
        seen.append((time.monotonic(), step))
        if len(seen) > 1 and seen[-1][0] - seen[1][0] > seconds:  # between the first two something may be compiled
            raise _Enough

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        create(path, job.comparison.algorithm, settings, "supple sweep --dry-run", lambda line: None)
        try:
            train(path, watch, lambda line: None)
        except _Enough:
            (first, before), (last, after) = seen[1], seen[-1]
            return (after - before) / (last - first)
    return seen[-1][1] / (time.monotonic() - began)
