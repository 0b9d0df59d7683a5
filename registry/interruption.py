"""Ctrl-C, SIGTERM and SIGHUP: a process ends immediately and prints one line, wherever it is.

No exception is raised. In the middle of an import, a compilation or a destructor, it could be converted or lost. It is
also not needed: a run can be killed at any time, because incomplete files have temporary names.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from . import signals

Action = Callable[[], str | None]

_actions: list[Action] = []
VERBS: dict[int, str] = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
SHOW_CURSOR = "\x1b[?25h"  # a progress display hides it


@contextmanager
def end_on_signals() -> Iterator[None]:
    """End this process with one line if a signal arrives within this block that interrupts it."""
    before = {number: signal.signal(number, _leave) for number in signals.interrupting_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
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
    """Call all actions, the innermost first, and return the first text that one of them returns.

    One that fails, for instance because the run's folder is gone, does not keep the others from being called.
    """
    texts = []
    for action in reversed(_actions):
        with suppress(Exception):
            texts.append(action())
    return next(filter(None, texts), "")


def _leave(number: int, frame: FrameType | None) -> None:
    text = undo()
    line = f"supple: {VERBS.get(number, 'interrupted')}{text and f'; {text}'}\n"
    with suppress(Exception):  # a closed stream, a terminal that is gone
        if sys.stderr and sys.stderr.isatty():
            line = f"{SHOW_CURSOR}\n{line}"
    with suppress(Exception):
        if _prints():
            os.write(2, line.encode(errors="replace"))  # not print: the interrupted code may hold the stream's lock
    os._exit(128 + number)


def _prints() -> bool:
    """Return whether this process prints: among those started by torchrun, only the first does."""
    rank = os.environ.get("RANK", "").strip()
    return not (os.environ.get("WORLD_SIZE") and rank.isdecimal() and int(rank) > 0)
