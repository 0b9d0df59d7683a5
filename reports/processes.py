"""Map a function over items in several processes, which are forked from this one."""

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

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
        ValueError: As raised by `work`.
        RunError: A process died.
    """
    cores = min(cpus(), len(items)) if sys.platform == "linux" else 1
    if cores < 2:
        yield from map(work, items)
        return
    context, waiting = get_context("fork"), list(enumerate(items))
    busy: dict[Any, tuple[int, BaseProcess]] = {}
    results: dict[int, Result | ValueError] = {}

    def start_next() -> None:
        number, item = waiting.pop(0)
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(work, item, theirs), daemon=True)
        process.start()
        theirs.close()
        busy[ours] = number, process

    def stop() -> None:
        for _, process in busy.values():
            process.terminate()

    with at_interruption(stop):
        try:
            for i in range(len(items)):
                while i not in results:
                    while waiting and len(busy) < cores:
                        start_next()
                    for ready in wait(list(busy)):
                        number, process = busy.pop(ready)
                        results[number] = _receive(ready)
                        process.join()
                result = results.pop(i)
                if isinstance(result, ValueError):
                    raise result
                yield result
        finally:
            stop()


def _receive(connection: Any) -> Any:
    try:
        return connection.recv()
    except EOFError:
        raise RunError("a process that was writing a part of the report died") from None


def _work(work: Callable[[Item], Result], item: Item, connection: Connection) -> None:
    for number in signals.interrupting_signals():
        signal.signal(number, signal.SIG_DFL)  # only the first process prints a message
    try:
        connection.send(work(item))
    except ValueError as error:
        connection.send(ValueError(str(error)))
