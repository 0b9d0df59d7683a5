"""Train a run, a comparison or a sweep to its end, with progress on the screen, and print what came of it."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from supple.engine.user_code import plugins
from supple.registry.errors import RunError, UsageError, is_of_user
from supple.registry.interruption import at_interruption
from supple.scripts.cli import reporting
from supple.scripts.cli.console import say, screen, warn
from supple.scripts.cli.plan import next_of_queue, next_of_run, plan_of_queue, plan_of_run
from supple.scripts.cli.progress import display

if TYPE_CHECKING:
    from supple.engine.runs import Run
    from supple.experiments.comparisons.comparison import Comparison
    from supple.experiments.queue.queue import Queue, QueuedRun
    from supple.experiments.queue.workers import Watch

    Elsewhere = Callable[[Queue, Watch], None]


def identify_folder(path: Path) -> str:
    """Return "a run", "a comparison" or "a sweep", whichever is in the folder.

    Raises:
        UsageError: It is none of these.
    """
    known = {"sweep.json": "a sweep", "comparison.json": "a comparison", "config.json": "a run"}
    for file, content in known.items():
        if (path / file).is_file():
            return content
    raise UsageError(f"{path} contains no run (config.json), no comparison (comparison.json) and no sweep (sweep.json)")


def count_processes(jobs: int) -> int:
    """Return the number of processes that `--jobs` asks for."""
    from supple.engine.machine.resources import cpus  # imports PyTorch, which help does not need

    return jobs or cpus()


def finish_run(path: Path, run: "Run") -> None:
    """Train a run to its last step, with a progress bar, and say where it lies.

    Args:
        path: Its folder, as the user typed it.
        run: The run.
    """
    from supple.engine.machine import distributed
    from supple.engine.runs import other_versions
    from supple.engine.storage.checkpoint import newest_step
    from supple.engine.storage.run_directory import CHECKPOINTS

    if not distributed.is_first():
        run.warn = lambda line: None
        run.train()
        return
    if line := other_versions(path):
        warn(line)
    announced = False

    def explain_continuing() -> str:
        step = newest_step(run.path / CHECKPOINTS)
        without = "".join(f", without seed {seed}, which {how}" for seed, how in run.diverged.items())
        return f"`{plugins.command('resume', path)}` continues from step {step:,}{without}"

    def watch(step: int) -> None:
        nonlocal announced
        if not announced:  # by now config.json has been checked
            say(*plan_of_run(path, run.spec, step))
            announced = True
        progress.update(str(path), run.path, step, run.spec.end)

    began = time.monotonic()
    with display(screen) as progress, at_interruption(explain_continuing):
        try:
            run.train(watch)
        except Exception as error:
            if is_of_user(error):
                warn(f"once that is mended, {explain_continuing()}")
            raise
    print_results(path)
    for seed, how in run.diverged.items():
        warn(f"seed {seed} {how}; its numbers end there, and resuming does not train it again")
    say(f"done: {path} in {timedelta(seconds=round(time.monotonic() - began))}", *next_of_run(path))


def print_results(path: Path) -> None:
    """Print the first table of a run's report, which has the numbers that matter for its kind."""
    from supple import reports  # matplotlib takes a moment

    try:
        with warnings.catch_warnings(action="ignore"):  # `supple report` shows warnings and errors
            table = reports.compose(path).tables[0]
    except (ValueError, RunError):
        return
    screen.print(replace(table, title="results"))
    if table.words:
        say(table.words)


def train_comparison(options: Any, comparison: "Comparison") -> None:
    """Train a comparison in a new folder, as --out, --jobs and --capture-video say, and make the report."""
    from supple.experiments.comparisons.folder import create

    processes = count_processes(options.jobs)
    queue = create(options.out, comparison, processes, warn).queue(options.out)
    finish_queue(options.out, queue, processes, video=options.capture_video)


def finish_queue(
    path: Path, queue: "Queue", processes: int, train_elsewhere: "Elsewhere | None" = None, video: bool = False
) -> None:
    """Train the remaining runs of a comparison or a sweep and those that its search adds, and make the report.

    Args:
        path: The folder of the comparison or the sweep.
        queue: Its runs.
        processes: Number of runs at a time.
        train_elsewhere: Trains the runs in place of processes on this machine.
        video: Whether the report shows episodes.

    Raises:
        RunError: Runs failed. It is raised when all others have ended.
    """
    from supple.experiments.queue import workers
    from supple.experiments.sweeps.sweep import finish

    def train(queue: "Queue") -> None:
        if failed := queue.failed:
            warn(f"{len(failed)} runs that failed before are skipped; --retry-failed trains them again")
        with watching(path, queue, processes, "resume", "the others from their last checkpoints") as watch:
            if train_elsewhere:
                train_elsewhere(queue, watch)
            else:
                workers.train_queue(queue, processes, watch, warn)
        screen.print()

    report_queue(path, finish(path, queue, train, processes, warn), video)


@contextmanager
def watching(path: Path, queue: "Queue", processes: int, command: str, what: str = "") -> "Iterator[Watch]":
    """Say what will be trained, and yield a function that shows how far a run has come, in a bar for each run.

    If the block is interrupted, one line says that `command` continues `what`.
    """

    def explain_continuing() -> str:
        again = f"`{plugins.command(command, path)}` continues {what}".strip()
        return f"{queue.ended} of {len(queue)} runs ended; {again}"

    def watch(run: "QueuedRun", step: int, end: int) -> None:
        progress.update(run.label, run.folder, step, end)

    if line := queue.other_versions(path):
        warn(line)
    say(*plan_of_queue(path, queue, processes))
    with display(screen, len(queue), queue.ended) as progress, at_interruption(explain_continuing):
        yield watch


def report_queue(path: Path, queue: "Queue", video: bool = False) -> None:
    """Make the report of runs, and print which of them failed, and which seeds of stacks diverged.

    Raises:
        RunError: Runs failed, other than those that only served to tune arms.
    """
    tuning = [run for run in queue.failed if run.spec.stop and run.spec.labels.arm]
    failed = [run for run in queue.failed if run not in tuning]
    if tuning:
        warn(f"{len(tuning)} tuning runs failed; their hyperparameters were not chosen")
    try:
        reporting.show_report(path, video=video)
    except UsageError as error:  # there may be nothing to report
        if not failed:
            raise
        warn(str(error))
    else:
        say(next_of_queue(queue))
    for run in queue:
        for seed, how in run.diverged.items():
            warn(f"{run.label}: seed {seed} {how}; its numbers end there, and resuming does not train it again")
    for run in failed:
        reason = str(run.outcome.get("reason"))
        warn(f"failed: {run.label}: {reason if str(run.folder) in reason else f'{run.folder}: {reason}'}")
    if failed:
        left = len(queue) - queue.ended
        waiting = f", and {left} that depend on them did not start" if left else ""
        raise RunError(
            f"{len(failed)} of {len(queue)} runs failed{waiting}; "
            f"`{plugins.command('resume', path)} --retry-failed` trains them again"
        )
