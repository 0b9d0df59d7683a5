"""Train a run, a comparison or a sweep to its end, with progress on the screen, and print what came of it."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from supple.engine.user_code import plugins
from supple.registry import quoted
from supple.registry.errors import EnvironmentFailed, RunError, UsageError
from supple.registry.interruption import at_interruption
from supple.scripts.cli import reporting
from supple.scripts.cli.console import ignore_output_failures, say, screen, warn
from supple.scripts.cli.forecast import Forecast
from supple.scripts.cli.plan import next_of_jobs, next_of_run, plan_of_jobs, plan_of_run
from supple.scripts.cli.progress import display

if TYPE_CHECKING:
    from supple.experiments.queue.jobs import Job
    from supple.experiments.queue.workers import Watch

    Elsewhere = Callable[[Watch], None]


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
    if jobs < 0:
        raise UsageError(f"--jobs must be 0 (one per core) or more, got {jobs}")
    if jobs:
        return jobs
    from supple.engine.machine.resources import cpus  # imports PyTorch, which help does not need

    return cpus()


def finish_run(path: Path) -> None:
    """Train the run in `path` to its last step, with a progress bar, and say where it lies."""
    from supple.engine.machine import distributed, torchrun
    from supple.engine.runs import other_versions, train
    from supple.engine.storage.checkpoint import newest_step
    from supple.engine.storage.run_directory import CHECKPOINTS, RunDirectory

    if not distributed.first():
        train(path, lambda step: None, lambda line: None)
        return
    ignore_output_failures()
    run, folder = RunDirectory.open(path), path.absolute()  # an environment may change the working directory
    for remark in filter(None, (torchrun.remark(), other_versions(path))):
        warn(remark)
    forecast, announced = Forecast(say), False

    def describe_rest() -> str:
        step = newest_step(folder / CHECKPOINTS)
        return f"`supple resume {quoted(path)}{plugins.options()}` continues from step {step:,}"

    def watch(step: int) -> None:
        nonlocal announced
        if not announced:  # by now config.json has been checked
            say(*plan_of_run(run, step))
            announced = True
        progress.update(str(path), folder, step, run.end)
        forecast.run(folder, step, run.end)

    began = time.monotonic()
    with display(screen) as progress, at_interruption(describe_rest):
        try:
            train(path, watch, warn)
        except EnvironmentFailed as error:
            raise EnvironmentFailed(f"{error}; once that is fixed, {describe_rest()}") from error
    print_results(path)
    say(f"done: {path} in {timedelta(seconds=round(time.monotonic() - began))}", *next_of_run(run))


def print_results(path: Path) -> None:
    """Print the first table of a run's report, which has the numbers that matter for its kind."""
    from supple import reports  # matplotlib takes a moment

    try:
        with warnings.catch_warnings(action="ignore"):  # `supple report` shows warnings and errors
            table = reports.compose(path).tables[0]
    except ValueError:
        return
    screen.print(replace(table, title="results"))
    if table.words:
        say(table.words)


def finish_jobs(path: Path, jobs: "Sequence[Job]", processes: int, retry: bool = False) -> None:
    """Train the remaining runs of a comparison or a sweep, and make the report. Arguments as for `train_jobs`.

    Raises:
        RunError: Runs failed. It is raised when all others have ended.
    """
    train_jobs(path, jobs, processes, retry)
    report_jobs(path, jobs)


def train_jobs(
    path: Path, jobs: "Sequence[Job]", processes: int, retry: bool = False, elsewhere: "Elsewhere | None" = None
) -> None:
    """Train the remaining runs of a comparison or a sweep, with a bar for each.

    Args:
        processes: Number of runs at a time.
        retry: Train failed runs again.
        elsewhere: Trains the runs in place of processes on this machine.
    """
    from supple.experiments.queue import workers

    warn_of_other_versions(path, jobs)
    failed = [job for job in jobs if job.failed]
    for job in failed if retry else ():
        job.retry()
    if failed and not retry:
        warn(f"{len(failed)} runs that failed before are skipped; --retry-failed trains them again")

    def describe_rest() -> str:
        ended = sum(job.outcome is not None for job in jobs)
        again = f"`supple resume {quoted(path)}{plugins.options()}` continues the others from their last checkpoints"
        return f"{ended} of {len(jobs)} runs ended; {again}"

    ignore_output_failures()
    before = sum(job.outcome is not None for job in jobs)
    forecast = Forecast(say)
    say(*plan_of_jobs(path, jobs, processes))
    with display(screen, len(jobs), before) as progress, at_interruption(describe_rest):

        def watch(job: "Job", step: int, end: int) -> None:
            progress.update(job.label, job.folder, step, end)
            forecast.job(job, step, jobs, processes)

        if elsewhere:
            elsewhere(watch)
        else:
            workers.run_jobs(jobs, processes, watch, warn)
    screen.print()


def warn_of_other_versions(path: Path, jobs: "Sequence[Job]") -> None:
    """Say if runs were begun under other versions than those with which the remaining ones will be trained."""
    from supple.experiments.queue.jobs import other_versions

    if line := other_versions(path, jobs):
        warn(line)


def report_jobs(path: Path, jobs: "Sequence[Job]") -> None:
    """Make the report of runs, and print which of them failed.

    Raises:
        RunError: Runs failed, other than those that only served to tune arms.
    """
    tuning = [job for job in jobs if job.failed and job.comparison.stop_step]
    failed = [job for job in jobs if job.failed and job not in tuning]
    if tuning:
        warn(f"{len(tuning)} tuning runs failed; their hyperparameters were not chosen")
    try:
        reporting.show_report(path)
    except UsageError as error:  # there may be nothing to report
        if not failed:
            raise
        warn(str(error))
    else:
        say(next_of_jobs(jobs))
    for job in failed:
        reason = str((job.outcome or {}).get("reason"))
        warn(f"failed: {job.label}: {reason if str(job.folder) in reason else f'{job.folder}: {reason}'}")
    if failed:
        left = sum(job.outcome is None for job in jobs)
        waiting = f", and {left} that depend on them did not start" if left else ""
        raise RunError(
            f"{len(failed)} of {len(jobs)} runs failed{waiting}; "
            f"`supple resume {quoted(path)}{plugins.options()} --retry-failed` trains them again"
        )
