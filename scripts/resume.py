"""Continue the run, comparison or sweep in a folder from its last checkpoints.

  supple resume runs/a
  supple resume runs/y --jobs 2 --retry-failed
  supple resume runs/a --steps 2_000_000

The result is bit for bit that of a run that was never interrupted. A run that has ended is left unchanged.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from supple.registry.errors import UsageError
from supple.registry.schema import NotNegative
from supple.scripts.cli import training
from supple.scripts.cli.console import warn
from supple.scripts.cli.options import Folder, Plugins, parse_or_explain


@dataclass(kw_only=True)
class Options:
    directory: Folder
    """Folder of a run, a comparison or a sweep."""
    jobs: NotNegative[int] = 0
    """Number of runs of a comparison or a sweep at a time. 0 means one per core."""
    retry_failed: bool = False
    """Train failed runs again, from their last checkpoints. Their plug-ins may have been mended. Default: skip them."""
    steps: int | None = None
    """New total number of steps, more than planned, for agents with --steps. Hooks like fire@0.5 keep their steps."""
    take_over: bool = False
    """Continue runs that another machine trained less than ten minutes ago, because it has ended there."""
    plugin: Plugins = ()
    """Plug-in that the run was started with. Each has to be named again."""


def main(args: Sequence[str]) -> None:
    options = parse_or_explain(Options, args, "supple resume", __doc__)
    from supple.engine.storage.lock import take_over

    path = options.directory
    what = training.identify_folder(path)
    if what != "a run":
        if options.steps is not None:
            raise UsageError(f"--steps extends single runs, but {path} is {what}")
        from supple.experiments.sweeps.sweep import open_queue, retry_failed

        jobs = training.count_processes(options.jobs)
        if options.retry_failed:
            retry_failed(path)
        queue = open_queue(path, jobs, warn)
        if options.take_over:
            for each in queue.left:
                take_over(each.folder)
        training.finish_queue(path, queue, jobs)
    elif options.jobs or options.retry_failed:
        raise UsageError(
            f"{'--jobs' if options.jobs else '--retry-failed'} is for comparisons and sweeps, but {path} is a run"
        )
    else:
        if options.take_over:
            take_over(path)
        if options.steps is not None:
            from supple.engine.extension import extend

            extend(path, options.steps, warn)
        from supple.engine.runs import open_run

        training.finish_run(path, open_run(path, warn))
