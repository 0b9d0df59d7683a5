"""`--threads auto`: the number of PyTorch threads with which a run is fastest, found by short training runs."""

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

from ..registry import signals, streams
from ..registry.errors import RunError, UsageError, in_words
from ..registry.interruption import at_interruption
from .kinds import Kind, find_kind
from .machine.resources import own_cpus
from .settings import RunSettings
from .user_code import plugins

SECONDS = 2.0  # of training that are timed in a trial, after its first updates
FIRST = 2  # reports of progress before that: compilation, and memory that is allocated once
GAIN = 1.05  # a number of threads is taken if it is so many times as fast as the best smaller one


Train = Callable[[Path, str, RunSettings, Callable[[int], None]], None]  # folder, kind, settings, progress


class Enough(Exception):
    """A trial has taken long enough."""


@dataclass
class Clock:
    """Measures the speed of a run from its reports of progress, and ends it after `SECONDS`."""

    begin: int  # the step from which on there are updates
    seen: int = 0
    step: int = 0
    time: float = 0.0
    speed: float = 0.0  # steps per second; 0 if the run was too short to tell

    def __call__(self, step: int) -> None:
        if step <= self.begin:
            return
        self.seen += 1
        now = time.perf_counter()
        if self.seen <= FIRST:
            self.step, self.time = step, now
            return
        self.speed = (step - self.step) / (now - self.time)
        if now - self.time >= SECONDS:
            raise Enough


def fastest(kind: Kind, settings: RunSettings, train: Train) -> tuple[int, str]:
    """Return the number of threads with which this run is fastest, and a line for the user.

    1, 2, 4, … threads are tried, up to this process's part of the processors and until more are no faster. Each trial
    trains the run with these settings in a temporary folder and in a process of its own, for some seconds. `train`
    makes a run in a folder and trains it.

    Raises:
        UsageError, RunError: The run cannot be trained.
    """
    chosen, speeds = 1, dict[int, float]()
    for threads in [2**power for power in range(own_cpus().bit_length())]:
        speeds[threads] = _measure_speed(kind, replace(settings, threads=threads, log_to=()), train)
        if threads > 1 and speeds[threads] < GAIN * speeds[chosen]:
            break
        chosen = threads
    tried = ", ".join(f"{count}: {speed:,.0f}" for count, speed in speeds.items())
    return chosen, f"--threads auto: {chosen} (steps/s by number of threads: {tried})"


def _measure_speed(kind: Kind, settings: RunSettings, train: Train) -> float:
    """Return the steps per second of a trial."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(
        target=_run_trial, args=(theirs, kind.name, settings, train, plugins.sources()), daemon=True
    )
    with signals.blocked():
        process.start()
    theirs.close()
    try:
        with at_interruption(process.kill):
            found = ours.recv()
    except EOFError:
        raise RunError(f"--threads auto: the trial with {settings.threads} threads was killed") from None
    finally:
        process.kill()
        process.join()
    if isinstance(found, str):
        raise RunError(f"--threads auto: the trial with {settings.threads} threads failed: {found}")
    speed: float = found
    return speed


def _run_trial(way: Connection, kind: str, settings: RunSettings, train: Train, sources: dict[str, str]) -> None:
    """Run in a process of its own: send the speed of a trial, or the reason why it failed."""
    signals.ignore()
    streams.steady()
    plugins.load_all(sources)
    clock = Clock(settings.untrained_steps)
    try:
        with tempfile.TemporaryDirectory() as folder, suppress(Enough):
            train(Path(folder) / "run", find_kind(kind).name, settings, clock)
        way.send(clock.speed)
    except (RunError, UsageError, OSError) as error:
        way.send(in_words(error))
