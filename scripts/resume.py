"""Continue the run, comparison or sweep in a folder from its last checkpoints.

  supple resume runs/a
  supple resume runs/y --jobs 2 --retry-failed
  supple resume runs/a --steps 2_000_000

The result is bit for bit that of a run that was never interrupted. A run that has ended is left unchanged.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from supple.engine.user_code import plugins
from supple.registry import quoted
from supple.registry.errors import EnvironmentFailed, RunError, UsageError
from supple.registry.interruption import at_interruption
from supple.scripts.cli.console import explain, makes_files, parse, run, say, screen, warn
from supple.scripts.cli.forecast import Forecast
from supple.scripts.cli.options import Plugins, load_plugins
from supple.scripts.cli.plan import next_of_jobs, next_of_run, plan_of_jobs, plan_of_run
from supple.scripts.cli.progress import display

if TYPE_CHECKING:
    from supple.experiments.queue.jobs import Job
    from supple.experiments.queue.workers import Watch

    Elsewhere = Callable[[Watch], None]


@dataclass(kw_only=True)
class Options:
    directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """Folder of a run, a comparison or a sweep."""
    jobs: int = 0
    """Number of runs of a comparison or a sweep at a time. 0 means one per core."""
    retry_failed: bool = False
    """Train failed runs again, from their last checkpoints. Without it they are skipped."""
    steps: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """New total number of steps, more than planned, for agents with --steps. Hooks like fire@0.5 keep their steps."""
    plugin: Plugins = ()
    """Plug-in that the run was started with. Each has to be named again."""


def main(args: Sequence[str]) -> None:
    if not args:
        explain(__doc__, "supple resume")
        return
    options = parse(Options, None, args, "supple resume", __doc__ or "", flags=True)
    load_plugins(args)
    path = options.directory
    what = what_lies_in(path)
    if what != "a run":
        if options.steps is not None:
            raise UsageError(f"--steps extends single runs, but {path} is {what}")
        from supple.experiments.sweeps.sweep import open_queue

        jobs = workers(options.jobs)
        finish(path, open_queue(path, jobs, warn), jobs, options.retry_failed)
    elif options.jobs or options.retry_failed:
        raise UsageError(
            f"{'--jobs' if options.jobs else '--retry-failed'} is for comparisons and sweeps, but {path} is a run"
        )
    else:
        if options.steps is not None:
            from supple.engine.extension import extend

            extend(path, options.steps, warn)
        finish_run(path)


def what_lies_in(path: Path) -> str:
    """Return "a run", "a comparison" or "a sweep", whichever is in the folder.

    Raises:
        UsageError: It is none of these.
    """
    known = {"sweep.json": "a sweep", "comparison.json": "a comparison", "config.json": "a run"}
    for file, what in known.items():
        if (path / file).is_file():
            return what
    raise UsageError(f"{path} contains no run (config.json), no comparison (comparison.json) and no sweep (sweep.json)")


def workers(jobs: int) -> int:
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

    if not distributed.is_first():
        train(path, lambda step: None, lambda line: None)
        return
    makes_files()
    run, here = RunDirectory.open(path), path.absolute()  # an environment may change the working directory
    for remark in filter(None, (torchrun.remark(), other_versions(path))):
        warn(remark)
    forecast, begun = Forecast(say), False

    def words() -> str:
        return (
            f"`supple resume {quoted(path)}{plugins.options()}` continues from step {newest_step(here / CHECKPOINTS):,}"
        )

    def watch(step: int) -> None:
        nonlocal begun
        if not begun:  # by now config.json has been checked
            say(*plan_of_run(run, step))
            begun = True
        shown.update(str(path), here, step, run.end)
        forecast.run(here, step, run.end)

    began = time.monotonic()
    with display(screen) as shown, at_interruption(words):
        try:
            train(path, watch, warn)
        except EnvironmentFailed as error:
            raise EnvironmentFailed(f"{error}; once that is fixed, {words()}") from error
    results(path)
    say(f"done: {path} in {timedelta(seconds=round(time.monotonic() - began))}", *next_of_run(run))


def results(path: Path) -> None:
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


def finish(path: Path, jobs: "Sequence[Job]", processes: int, retry: bool = False) -> None:
    """Train the remaining runs of a comparison or a sweep, and make the report. The arguments are those of `go_on`.

    Raises:
        RunError: Runs failed. It is raised when all others have ended.
    """
    go_on(path, jobs, processes, retry)
    report(path, jobs)


def go_on(
    path: Path, jobs: "Sequence[Job]", processes: int, retry: bool = False, elsewhere: "Elsewhere | None" = None
) -> None:
    """Train the remaining runs of a comparison or a sweep, with a bar for each.

    Args:
        processes: Number of runs at a time.
        retry: Train failed runs again.
        elsewhere: Trains the runs in place of processes on this machine.
    """
    from supple.experiments.queue import workers

    tell_versions(path, jobs)
    failed = [job for job in jobs if job.failed]
    for job in failed if retry else ():
        job.retry()
    if failed and not retry:
        warn(f"{len(failed)} runs that failed before are skipped; --retry-failed trains them again")

    def words() -> str:
        ended = sum(job.outcome is not None for job in jobs)
        again = f"`supple resume {quoted(path)}{plugins.options()}` continues the others from their last checkpoints"
        return f"{ended} of {len(jobs)} runs ended; {again}"

    makes_files()
    before = sum(job.outcome is not None for job in jobs)
    forecast = Forecast(say)
    say(*plan_of_jobs(path, jobs, processes))
    with display(screen, len(jobs), before) as shown, at_interruption(words):

        def watch(job: "Job", step: int, end: int) -> None:
            shown.update(job.label, job.folder, step, end)
            forecast.job(job, step, jobs, processes)

        if elsewhere:
            elsewhere(watch)
        else:
            workers.run_jobs(jobs, processes, watch, warn)
    screen.print()


def tell_versions(path: Path, jobs: "Sequence[Job]") -> None:
    """Say if runs were begun under other versions than those with which the remaining ones will be trained."""
    from supple.experiments.queue.jobs import other_versions

    if line := other_versions(path, jobs):
        warn(line)


def report(path: Path, jobs: "Sequence[Job]") -> None:
    """Make the report of runs, and print which of them failed.

    Raises:
        RunError: Runs failed, other than those that only served to tune arms.
    """
    from supple.scripts.report import show

    tuning = [job for job in jobs if job.failed and job.comparison.stop_step]
    failed = [job for job in jobs if job.failed and job not in tuning]
    if tuning:
        warn(f"{len(tuning)} tuning runs failed; their hyperparameters were not chosen")
    try:
        show(path)
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


if __name__ == "__main__":
    run(main)
