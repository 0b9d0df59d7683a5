"""Estimate how long a sweep will take, by training one run of each study for a short time."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from supple.engine.runs import prepare
from supple.engine.spec import Start
from supple.engine.speed import measure_speed
from supple.experiments.comparisons.checks import Networks
from supple.experiments.queue.queue import Queue

from .gpu_rates import GPU, gpu_seconds

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


def estimates(queue: Queue, say: Callable[[str], None]) -> Iterator[Estimate]:
    """Yield an estimate for each study with runs left, by training its first run for an equal share of a minute.

    Each study gets at least 5 s. Nothing is left on the disk. Before, `say` is called with a line about the hours on a
    GPU, if the rate of such runs was measured there.
    """
    studies = [(study, list(runs)) for study, runs in groupby(queue.left, lambda run: run.spec.labels.study)]
    for study, runs in studies:
        # without a trunk, and without hooks, which might never fire in so short a time
        first = next(run.spec for run in queue if run.spec.labels.study == study)  # a trunk, if there is one
        spec = replace(first, settings=replace(first.settings, hook=()), start=Start(), stop=None)
        with Networks(spec.kind_row, lambda line: None) as networks:
            ends = [networks.ends(run.spec.settings)[-1] for run in runs]
        own = [(run.spec.stop or end) - run.spec.start.step for run, end in zip(runs, ends, strict=True)]
        measured = [gpu_seconds(run.spec, steps) for run, steps in zip(runs, own, strict=True)]
        if known := [each for each in measured if each]:
            others = f", without {measured.count(None)} runs of which nothing was measured" if None in measured else ""
            hours = sum(seconds for seconds, _ in known) / 3600
            say(f"{study}: {hours:,.1f} h on {GPU}, one run at a time{others}. Measured there: {known[0][1]}")
        trunks = sum(run.spec.labels.arm is None for run in runs)
        with tempfile.TemporaryDirectory() as folder:
            train = prepare(spec, Path(folder) / "run", lambda line: None).train
            speed = measure_speed(train, max(LEAST, SECONDS / len(studies)), begin=spec.settings.untrained_steps)
        yield Estimate(study, len(runs) - trunks, trunks, sum(own), speed)
