"""Map a function over items in several processes, which are forked from this one."""

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from ..engine.machine.resources import cpus
from ..registry import signals
from ..registry.errors import RunError
from ..registry.interruption import at_interruption

Item = TypeVar("Item")
Made = TypeVar("Made")


def map_in_processes(work: Callable[[Item], Made], items: Sequence[Item]) -> Iterator[Made]:
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
    made: dict[int, Made | ValueError] = {}

    def stop() -> None:
        for _, process in busy.values():
            process.terminate()

    with at_interruption(stop):
        try:
            for place in range(len(items)):
                while place not in made:
                    while waiting and len(busy) < cores:
                        number, item = waiting.pop(0)
                        way, theirs = context.Pipe(duplex=False)
                        process = context.Process(target=_work, args=(work, item, theirs), daemon=True)
                        process.start()
                        theirs.close()
                        busy[way] = number, process
                    for ready in wait(list(busy)):
                        number, ended = busy.pop(ready)
                        made[number] = _received(ready)
                        ended.join()
                found = made.pop(place)
                if isinstance(found, ValueError):
                    raise found
                yield found
        finally:
            stop()


def _received(way: Any) -> Any:
    try:
        return way.recv()
    except EOFError:
        raise RunError("a process that was writing a part of the report died") from None


def _work(work: Callable[[Item], Made], item: Item, way: Connection) -> None:
    for number in signals.heeded():
        signal.signal(number, signal.SIG_DFL)  # only the first process prints a message
    try:
        way.send(work(item))
    except ValueError as error:
        way.send(ValueError(str(error)))
