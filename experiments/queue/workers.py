"""The worker processes that train the runs of a queue. Their number and order do not change any result."""

import multiprocessing
import os
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from supple.engine.loop import Warn
from supple.engine.machine.denormals import flush_denormals
from supple.engine.machine.resources import VISIBLE, gpus, sharing
from supple.engine.storage.lock import Lock
from supple.engine.user_code import plugins
from supple.registry import signals
from supple.registry.errors import DiskError, RunError, UsageError, describe_error
from supple.registry.interruption import undo

from .queue import Queue, QueuedRun

Watch = Callable[[QueuedRun, int, int], None]  # run, step, last step


@dataclass
class Worker:
    """A process that takes run after run."""

    process: BaseProcess
    way: Connection  # to the process, which ends when this is closed
    gpu: str | None = None  # the only GPU that the process sees; None for all
    run: int | None = None  # index in the queue of the run that it has started


def train_queue(queue: Queue, workers: int, watch: Watch, warn: Warn) -> None:
    """Train all runs that have not ended, in `workers` processes.

    If there are GPUs, each process sees one of them, in turn. If a run fails or its process is killed, the reason is
    recorded and the other runs continue.

    Args:
        queue: The runs.
        workers: Number of processes.
        watch: Called with a run, its step and its last step.
        warn: Called with lines for the user.

    Raises:
        RunError: No run can continue, for example because the disk is full.
    """
    seen = cycle(gpus() or [None])
    count = min(workers, len(queue.left))
    busy = {worker.way: worker for worker in (_start_worker(queue, next(seen), count) for _ in range(count))}
    try:
        while busy:
            for way in wait(list(busy)):
                worker = busy[way]  # type: ignore[index]
                try:
                    what, *rest = worker.way.recv()
                except (EOFError, OSError):
                    del busy[worker.way]
                    _record_end(worker, queue)
                    if len(queue.left) > len(busy):
                        fresh = _start_worker(queue, worker.gpu, count)
                        busy[fresh.way] = fresh
                    continue
                if what == "begins":
                    worker.run = rest[0]
                elif what == "step" and worker.run is not None:
                    watch(queue[worker.run], *rest)
                elif what == "warn":
                    warn(*rest)
                else:
                    raise RunError(*rest)
    finally:
        for worker in busy.values():
            worker.way.close()
        for worker in busy.values():
            worker.process.join()


def _start_worker(queue: Queue, gpu: str | None, count: int) -> Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, plugins.sources(), count))
    before = {name: value for name, value in os.environ.items() if name == VISIBLE}
    with signals.block_signals(signals.INTERRUPTING), theirs:
        try:  # the process sees the GPU from its start: PyTorch reads the variable once
            os.environ |= {} if gpu is None else {VISIBLE: gpu}
            process.start()
        finally:
            os.environ.pop(VISIBLE, None)
            os.environ |= before
    with suppress(OSError):  # the process has died already; `_record_end` will see to it
        ours.send(queue)
    return Worker(process, ours, gpu)


def _record_end(worker: Worker, queue: Queue) -> None:
    """Wait until a worker has ended, and record its run as failed if the worker was killed."""
    worker.way.close()
    worker.process.join()
    code = worker.process.exitcode or 0
    if worker.run is not None and (code or not queue[worker.run].outcome):
        in_plugin = f" in plug-in {plugins.describe_all()}" if plugins.loaded() else ""
        if code < 0:
            how = f"was killed ({signals.signal_name(code)}), perhaps because memory ran out"
        else:
            how = f"ended with exit status {code} in the middle of the run, perhaps by os._exit{in_plugin}"
        queue[worker.run].record_death(f"its process {how}")
    elif code:
        raise RunError("a worker process died before it started a run")


def _work(way: Connection, sources: dict[str, str], count: int) -> None:
    """Run in one of `count` workers: receive the queue, and take run after run until none is left."""
    signals.ignore(signals.INTERRUPTING)
    flush_denormals()  # before its threads are started: see denormals.py

    def tell(*message: object) -> None:
        try:
            way.send(message)
        except OSError:
            _end()

    def train(run: QueuedRun, held: Lock) -> None:
        tell("begins", places[run.folder])
        run.train(held, partial(tell, "step"), partial(tell, "warn"))

    warnings.showwarning = lambda message, *_, **__: tell("warn", str(message))
    try:
        plugins.load_all(sources)  # before the queue is received, which may have classes of plug-ins
        # absolute, because an environment may change the working directory
        queue = Queue(replace(run, path=run.path.absolute()) for run in way.recv())
        threading.Thread(target=_end_with_the_parent, args=(way,), daemon=True).start()
        places = {run.folder: place for place, run in enumerate(queue)}
        with sharing(count):
            queue.work_off(train)
    except EOFError:
        _end()
    except (DiskError, OSError, UsageError) as error:
        tell("stop", describe_error(error))


def _end_with_the_parent(way: Connection) -> None:
    with suppress(EOFError, OSError):
        way.recv()
    _end()


def _end() -> None:
    undo()  # empties the files of locks
    os._exit(1)
