"""Workers on other machines, started by Slurm (through submitit) or Ray.

They share only the folder of the sweep. Each takes run after run from it (queue.py), like `supple worker`.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from supple.engine.loop import Warn
from supple.engine.user_code import plugins
from supple.experiments.queue.queue import Queue
from supple.experiments.queue.workers import Watch, train_queue
from supple.registry.errors import RunError, UsageError, describe_error

from .sweep import open_queue

POLL = 1.0  # seconds between checks of the workers on other machines
LOGS = "workers"  # subfolder of a sweep for submitit's files
RAY_TASK = ("num_cpus", "num_gpus", "memory", "resources", "accelerator_type")


@dataclass(frozen=True)
class QueueWorker:
    """Take run after run from the queue in a folder, in `processes` processes, until none is left.

    This is called on the other machine. The processes end with the one that calls them. If a worker is stopped, at its
    time limit or because it is pre-empted, other workers continue its runs.
    """

    path: str
    processes: int = 1
    sources: Mapping[str, str] = field(default_factory=plugins.sources)  # of plug-ins: file or package → SHA-256

    def __call__(self) -> None:
        plugins.load_all(dict(self.sources))
        train_queue(open_queue(Path(self.path), self.processes), self.processes, lambda run, step, end: None, print)

    def checkpoint(self) -> Any:
        """Return the job that submitit queues again when Slurm stops this one: the same job."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def on_slurm(worker: QueueWorker, count: int, options: Mapping[str, Any], cluster: str = "slurm") -> list[Any]:
    """Queue an array of `count` Slurm jobs, each of which calls `worker`, and return submitit's jobs.

    Args:
        worker: What each job runs.
        count: Number of jobs.
        options: Options of submitit's `update_parameters`, such as timeout_min, cpus_per_task, slurm_partition and
            slurm_array_parallelism. A job that is pre-empted or reaches its time limit is queued again, at most
            slurm_max_num_timeout times (submitit's default is 3).
        cluster: submitit's name of the cluster; "local" starts processes on this machine, for a test.

    Raises:
        RunError: submitit or Slurm is not installed.
        UsageError: submitit does not know an option.
    """
    try:
        import submitit
    except ImportError as error:
        raise RunError(f"--on slurm needs submitit: pip install 'supple[slurm]' ({error})") from error
    own = {name: value for name, value in options.items() if name == "slurm_max_num_timeout"}
    try:
        executor = submitit.AutoExecutor(Path(worker.path) / LOGS, cluster=cluster, **own)
        executor.update_parameters(**{"name": "supple"} | {k: v for k, v in options.items() if k not in own})
        return list(executor.submit_array([worker] * count))
    except (NameError, AssertionError, TypeError) as error:
        raise UsageError(f"--with: {' '.join(str(error).split())}") from error
    except (RuntimeError, OSError) as error:
        raise RunError(f"--on slurm: {describe_error(error)}") from error


def on_ray(worker: QueueWorker, count: int, options: Mapping[str, Any]) -> list[Any]:
    """Start `count` tasks on a Ray cluster, each of which calls `worker`, and return their futures.

    A task whose node is lost is started again on another node.

    Args:
        worker: What each task runs.
        count: Number of tasks.
        options: `address` of a cluster ("auto" for the one that this machine belongs to; by default a local cluster is
            started, which ends with this process), and the resources of a task: num_cpus, num_gpus, memory, resources,
            accelerator_type.

    Raises:
        RunError: Ray is not installed or does not respond.
        UsageError: There is no such option.
    """
    try:
        import ray
    except ImportError as error:
        raise RunError(f"--on ray needs Ray: pip install 'supple[ray]' ({error})") from error
    if unknown := sorted(options.keys() - {*RAY_TASK, "address"}):
        raise UsageError(f"--with {unknown[0]}: no such option for Ray (known: address, {', '.join(RAY_TASK)})")
    try:
        if not ray.is_initialized():
            address = options.get("address")
            ray.init(address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        asked = {name: value for name, value in options.items() if name in RAY_TASK}
        task = ray.remote(max_retries=-1, **asked)(QueueWorker.__call__)
        return [task.remote(worker).future() for _ in range(count)]
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise RunError(f"--on ray: {describe_error(error)}") from error


def watch_over(queue: Queue, started: Sequence[Any], watch: Watch, warn: Warn) -> None:
    """Wait until all runs have ended, or until no worker is left, in which case `warn` is called.

    Args:
        queue: The runs.
        started: The result of `on_slurm` or `on_ray`.
        watch: Called for every run that has ended.
        warn: Called with a line for the user.
    """
    left = list(queue)
    while True:
        stopped = explain_stop(started)  # ask this before looking at the runs: a worker ends after its last run
        for run in left:
            if not run.open:
                watch(run, 1, 1)
        left = [run for run in left if run.open]
        if not left:
            return
        if stopped:
            warn(f"{stopped}, but {len(left)} of {len(queue)} runs have not ended")
            return
        time.sleep(POLL)


def explain_stop(started: Sequence[Any]) -> str | None:
    """Return a text that says why no worker is running any more, or None while one is."""
    if not all(job.done() for job in started):
        return None
    error = next(filter(None, (job.exception() for job in started)), None)
    # in one line, however long: submitit puts the trace in it, whose end says why
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return f"all workers have stopped ({reason})" if error else "all workers have ended"
