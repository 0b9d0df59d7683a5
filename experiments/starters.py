"""Workers that another system starts, on other machines: Slurm, through submitit, or Ray.

They share nothing but the folder of the sweep: each takes run after run from it (jobs.py), as `supple worker` does.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import plugins
from .errors import RunError, UsageError, in_words
from .jobs import Job
from .loop import Warn
from .sweep import open_queue
from .workers import Watch, run_jobs

POLL = 1.0  # seconds between two looks at what other machines do
LOGS = "workers"  # the folder in a sweep's with what submitit writes
RAY_TASK = ("num_cpus", "num_gpus", "memory", "resources", "accelerator_type")


@dataclass(frozen=True)
class Workers:
    """Take run after run of the queue in a folder, in so many processes, until none is left; what is called on the
    other machine.

    The processes end with the one that calls them. So a worker that is stopped, at its time limit or because the
    machine is wanted for something else, leaves runs that others go on with.
    """

    path: str
    processes: int = 1
    sources: Mapping[str, str] = field(default_factory=plugins.sources)  # plug-ins, by the names that runs know

    def __call__(self) -> None:
        plugins.load_all(dict(self.sources))
        jobs = open_queue(Path(self.path), self.processes)
        run_jobs(jobs, self.processes, lambda job, step, end: None, print)

    def checkpoint(self) -> Any:
        """Return what submitit is to queue again when Slurm stops this job: the same."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def on_slurm(workers: Workers, count: int, options: Mapping[str, Any], cluster: str = "slurm") -> list[Any]:
    """Queue `count` Slurm jobs as one array, each of which is these workers, and return submitit's jobs.

    options: as of submitit's `update_parameters`, such as timeout_min, cpus_per_task, slurm_partition,
    slurm_array_parallelism. A job that is pre-empted or comes to its time limit is queued again (slurm_max_num_timeout
    times at most, submitit's default is 3). cluster: of submitit; "local" starts processes here, to try it out.

    Raises RunError where submitit or Slurm is missing, UsageError for options that submitit does not know.
    """
    try:
        import submitit
    except ImportError as error:
        raise RunError(f"--on slurm needs submitit: pip install 'supple[slurm]' ({error})") from error
    own = {name: value for name, value in options.items() if name == "slurm_max_num_timeout"}
    try:
        executor = submitit.AutoExecutor(Path(workers.path) / LOGS, cluster=cluster, **own)
        executor.update_parameters(**{"name": "supple"} | {k: v for k, v in options.items() if k not in own})
        return list(executor.submit_array([workers] * count))
    except (NameError, AssertionError, TypeError) as error:
        raise UsageError(f"--with: {' '.join(str(error).split())}") from error
    except (RuntimeError, OSError) as error:
        raise RunError(f"--on slurm: {in_words(error)}") from error


def on_ray(workers: Workers, count: int, options: Mapping[str, Any]) -> list[Any]:
    """Start `count` tasks on a Ray cluster, each of which is these workers, and return their references.

    options: `address` of a cluster ("auto" for the one that this machine is part of; without it a local one is started,
    which ends with this process), and what a task asks for: num_cpus, num_gpus, memory, resources, accelerator_type.
    A task whose node is lost is started again on another one.

    Raises RunError where Ray is missing or does not answer, UsageError for options that it does not know.
    """
    try:
        import ray
    except ImportError as error:
        raise RunError(f"--on ray needs Ray: pip install 'supple[ray]' ({error})") from error
    if unknown := sorted(options.keys() - {*RAY_TASK, "address"}):
        raise UsageError(f"--with {unknown[0]}: Ray's tasks know address, {', '.join(RAY_TASK)}")
    try:
        if not ray.is_initialized():
            address = options.get("address")
            ray.init(address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        asked = {name: value for name, value in options.items() if name in RAY_TASK}
        task = ray.remote(max_retries=-1, **asked)(_take)
        return [task.remote(workers) for _ in range(count)]
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise RunError(f"--on ray: {in_words(error)}") from error


def _take(workers: Workers) -> None:
    workers()


def watch_over(jobs: Sequence[Job], started: Sequence[Any], watch: Watch, warn: Warn) -> None:
    """Wait until all jobs have come to an end, or no worker is left that could bring them there, which `warn` is told.

    started: what `on_slurm` or `on_ray` returned. watch: is told of every job that is at its end."""
    left = list(jobs)
    while True:
        stopped = settled(started)  # before the look at what is left: a worker ends after its last job
        for job in left:
            if not job.open:
                watch(job, 1, 1)
        left = [job for job in left if job.open]
        if not left:
            return
        if stopped:
            warn(f"{stopped}, and {len(left)} of {len(jobs)} runs are left")
            return
        time.sleep(POLL)


def settled(started: Sequence[Any]) -> str | None:
    """Return in words why no worker is at work any more; None while one is."""
    if all(hasattr(job, "done") for job in started):  # submitit's jobs
        if not all(job.done() for job in started):
            return None
        errors = [error for job in started if (error := job.exception())]
    else:
        import ray

        done, waiting = ray.wait(list(started), num_returns=len(started), timeout=0)
        if waiting:
            return None
        errors = [error for reference in done if (error := _error(reference))]
    return f"all workers have stopped ({in_words(errors[0])})" if errors else "all workers are at their end"


def _error(reference: Any) -> Exception | None:
    """Return what a task of Ray died of, if it did."""
    import ray

    try:
        ray.get(reference)
    except Exception as error:
        return error
    return None
