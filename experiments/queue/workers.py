"""The worker processes that train the runs of a comparison. Their number and order do not change any result."""

import multiprocessing
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from ...engine.loop import Warn
from ...engine.machine.denormals import flush_denormals
from ...engine.machine.resources import VISIBLE, gpus, sharing
from ...engine.storage.claim import Claim
from ...engine.user_code import plugins
from ...registry import signals, streams
from ...registry.errors import DiskError, RunError, UsageError, in_words
from ...registry.interruption import undo
from .jobs import Job, work_off

Watch = Callable[[Job, int, int], None]  # step, last step


@dataclass
class Worker:
    """A process that takes job after job."""

    process: BaseProcess
    way: Connection  # to the process, which ends when this is closed
    gpu: str | None = None  # the only GPU that the process sees; None for all
    job: int | None = None  # index of the job that it has started, in the list of jobs


def run_jobs(jobs: Sequence[Job], workers: int, watch: Watch, warn: Warn) -> None:
    """Train all jobs that have not ended, in `workers` processes.

    If there are GPUs, each process sees one of them, in turn. If a job fails or its process is killed, the reason is
    recorded and the other jobs continue.

    Args:
        jobs: The jobs.
        workers: Number of processes.
        watch: Called with a job, its step and its last step.
        warn: Called with lines for the user.

    Raises:
        RunError: No job can continue, for example because the disk is full.
    """
    seen = cycle(gpus() or [None])
    count = min(workers, _open(jobs))
    busy = {worker.way: worker for worker in (_hire(jobs, next(seen), count) for _ in range(count))}
    try:
        while busy:
            for way in wait(list(busy)):
                worker = busy[way]  # type: ignore[index]
                try:
                    what, *rest = worker.way.recv()
                except (EOFError, OSError):
                    del busy[worker.way]
                    _bury(worker, jobs)
                    if _open(jobs) > len(busy):
                        fresh = _hire(jobs, worker.gpu, count)
                        busy[fresh.way] = fresh
                    continue
                if what == "begins":
                    worker.job = rest[0]
                elif what == "step" and worker.job is not None:
                    watch(jobs[worker.job], *rest)
                elif what == "warn":
                    warn(*rest)
                else:
                    raise RunError(*rest)
    finally:
        for worker in busy.values():
            worker.way.close()
        for worker in busy.values():
            worker.process.join()


def _open(jobs: Sequence[Job]) -> int:
    return sum(job.open for job in jobs)


def _hire(jobs: Sequence[Job], gpu: str | None, count: int) -> Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with signals.blocked(signals.INTERRUPTING), _seeing(gpu), theirs:
        process = context.Process(target=_work, args=(theirs, plugins.sources(), count))
        process.start()
    with suppress(OSError):  # the process has died already; `_bury` will see to it
        ours.send(list(jobs))
    return Worker(process, ours, gpu)


def _bury(worker: Worker, jobs: Sequence[Job]) -> None:
    """Wait until a worker has ended, and record its job as failed if the worker was killed."""
    worker.way.close()
    worker.process.join()
    code = worker.process.exitcode or 0
    if worker.job is not None and (code or jobs[worker.job].outcome is None):
        in_plugin = f" in plug-in {plugins.describe_all()}" if plugins.loaded() else ""
        if code < 0:
            how = f"was killed ({signals.killer(code)}), perhaps because memory ran out"
        else:
            how = f"ended with exit status {code} in the middle of the run, perhaps by os._exit{in_plugin}"
        jobs[worker.job].left(f"its process {how}")
    elif code:
        raise RunError("a worker process died before it started a run")


@contextmanager
def _seeing(gpu: str | None) -> Iterator[None]:
    """Make processes started in this block see only this GPU, from their start: PyTorch reads the variable once."""
    before = os.environ.get(VISIBLE)
    if gpu is not None:
        os.environ[VISIBLE] = gpu
    try:
        yield
    finally:
        if gpu is not None:
            os.environ.pop(VISIBLE)
            os.environ.update({} if before is None else {VISIBLE: before})


def _work(way: Connection, sources: dict[str, str], count: int) -> None:
    """Run in one of `count` workers: receive the list of jobs, and take job after job until none is left."""
    signals.ignore(signals.INTERRUPTING)
    streams.steady()
    flush_denormals()  # before its threads are started: see denormals.py

    def tell(*message: object) -> None:
        try:
            way.send(message)
        except OSError:
            _end()

    def attempt(job: Job, held: Claim) -> None:
        tell("begins", places[job.folder])
        job.attempt(held, partial(tell, "step"), partial(tell, "warn"))

    warnings.showwarning = lambda message, *_, **__: tell("warn", str(message))
    try:
        plugins.load_all(sources)  # before the jobs are received, which may have classes of plug-ins
        # absolute, because an environment may change the working directory
        jobs = [replace(job, path=job.path.absolute()) for job in way.recv()]
        threading.Thread(target=_end_with_the_parent, args=(way,), daemon=True).start()
        places = {job.folder: place for place, job in enumerate(jobs)}
        with sharing(count):
            work_off(jobs, attempt)
    except EOFError:
        _end()
    except (DiskError, OSError, UsageError) as error:
        tell("stop", in_words(error))
    plugins.end_threads(0)


def _end_with_the_parent(way: Connection) -> None:
    with suppress(EOFError, OSError):
        way.recv()
    _end()


def _end() -> None:
    undo()  # releases claims
    os._exit(1)
