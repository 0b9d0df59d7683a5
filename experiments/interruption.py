"""Ctrl-C and SIGTERM: a process ends at once, in one line, wherever it is.

An exception in place of that could come in the middle of an import, of a compilation or of a destructor, where it is
turned into another one or lost. And nothing is owed to the exception: a run may be killed at any moment as it is, for
whatever it leaves half-done lies under a temporary name.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Action = Callable[[], str | None]

_actions: list[Action] = []
SHOW_CURSOR = "\x1b[?25h"  # which a progress display hides


@contextmanager
def watching() -> Iterator[None]:
    """Let SIGINT and SIGTERM end this process, within this block, in one line."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, _leave) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def at_interruption(action: Action) -> Iterator[None]:
    """Let an interruption within this block call `action`, which cleans up, says what there is to say, or both."""
    _actions.append(action)
    try:
        yield
    finally:
        _actions.remove(action)


def undo() -> str:
    """Call every action, the innermost first, and return the first words that one of them says."""
    said = [words for action in reversed(_actions) if (words := action())]
    return said[0] if said else ""


def _leave(number: int, frame: FrameType | None) -> None:
    what, words = "terminated" if number == signal.SIGTERM else "interrupted", undo()
    line = f"supple: {what}{words and f'; {words}'}\n"
    if sys.stderr and sys.stderr.isatty():
        line = f"{SHOW_CURSOR}\n{line}"
    if os.environ.get("RANK", "0") == "0":  # of processes that torchrun started the first speaks for all
        os.write(2, line.encode())  # not print: what was being printed may hold the stream
    os._exit(128 + number)
