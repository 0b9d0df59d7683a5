"""Map a function over items in several processes, which are forked from this one."""

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context
from typing import TypeVar

from supple.engine.machine.resources import cpus
from supple.registry import signals
from supple.registry.errors import RunError
from supple.registry.interruption import at_interruption

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_processes(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield `work(item)` for all items in order, computed in as many processes as there are cores.

    The processes are forks of this one: a new interpreter would need seconds for imports, and would not have the
    plug-ins.

    Raises:
        RunError: A process died.
    """
    cores = min(cpus(), len(items)) if sys.platform == "linux" else 1
    if cores < 2:
        yield from map(work, items)
        return
    others = set(active_children())

    def stop() -> None:
        for process in set(active_children()) - others:
            process.terminate()

    with ProcessPoolExecutor(cores, get_context("fork"), _leave_signals) as pool, at_interruption(stop):
        try:
            yield from pool.map(work, items)
        except BrokenProcessPool:
            raise RunError("a process that was writing a part of the report died") from None
        finally:
            stop()


def _leave_signals() -> None:
    for number in signals.interrupting_signals():
        signal.signal(number, signal.SIG_DFL)  # only the first process prints a message
