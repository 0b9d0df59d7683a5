"""`--threads auto`: the number of PyTorch threads with which a run is fastest, found by short training runs."""

import multiprocessing
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from supple.registry import signals
from supple.registry.errors import RunError, UsageError, describe_error
from supple.registry.interruption import at_interruption

from .kinds import Kind, find_kind
from .machine.resources import own_cpus
from .settings import RunSettings
from .speed import measure_speed
from .user_code import plugins

SECONDS = 2.0  # of training that are timed in a trial
GAIN = 1.05  # a number of threads is taken if it is so many times as fast as the best smaller one

Train = Callable[[Path, str, RunSettings, Callable[[int], None]], None]  # folder, kind, settings, progress


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
    with signals.block_signals():
        process.start()
    theirs.close()
    try:
        with at_interruption(process.kill):
            measured = ours.recv()
    except EOFError:
        raise RunError(f"--threads auto: the trial with {settings.threads} threads was killed") from None
    finally:
        process.kill()
        process.join()
    if isinstance(measured, str):  # the reason why it failed
        raise RunError(f"--threads auto: the trial with {settings.threads} threads failed: {measured}")
    return measured


def _run_trial(way: Connection, kind: str, settings: RunSettings, train: Train, sources: dict[str, str]) -> None:
    """Run in a process of its own: send the speed of a trial, or the reason why it failed."""
    signals.ignore()
    plugins.load_all(sources)
    try:
        with tempfile.TemporaryDirectory() as folder:
            run = partial(train, Path(folder) / "run", find_kind(kind).name, settings)
            way.send(measure_speed(run, SECONDS, begin=settings.untrained_steps))
    except (RunError, UsageError, OSError) as error:
        way.send(describe_error(error))
