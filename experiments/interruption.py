"""Ctrl-C and SIGTERM: a process ends immediately and prints one line, wherever it is.

No exception is raised. In the middle of an import, a compilation or a destructor, it could be converted or lost. It is
also not needed: a run can be killed at any time, because incomplete files have temporary names.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from ..registry import shown

Action = Callable[[], str | None]

_actions: list[Action] = []
SHOW_CURSOR = "\x1b[?25h"  # a progress display hides it


@contextmanager
def watching() -> Iterator[None]:
    """End this process with one line if SIGINT or SIGTERM arrives within this block."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, _leave) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def at_interruption(action: Action) -> Iterator[None]:
    """Call `action` if this process is interrupted within this block. It may clean up, and return a text or None."""
    _actions.append(action)
    try:
        yield
    finally:
        _actions.remove(action)


def undo() -> str:
    """Call all actions, the innermost first, and return the first text that one of them returns."""
    said = [words for action in reversed(_actions) if (words := action())]
    return said[0] if said else ""


def _leave(number: int, frame: FrameType | None) -> None:
    what, words = "terminated" if number == signal.SIGTERM else "interrupted", undo()
    line = f"supple: {what}{words and f'; {shown(words)}'}\n"
    if sys.stderr and sys.stderr.isatty():
        line = f"{SHOW_CURSOR}\n{line}"
    if os.environ.get("RANK", "0") == "0":  # among processes started by torchrun, only the first prints
        with suppress(OSError):  # the terminal may be gone
            os.write(2, line.encode(errors="replace"))  # not print: the interrupted code may hold the stream's lock
    os._exit(128 + number)
