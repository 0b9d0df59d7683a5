"""The signals that interrupt a program, and processes that leave them to their parent."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

OF_TERMINALS = (int(signal.SIGINT), int(signal.SIGHUP))  # a terminal sends them to all its processes
INTERRUPTING = (*OF_TERMINALS, int(signal.SIGTERM))


def interrupting_signals() -> list[int]:
    """Return the signals that should interrupt this process. Under `nohup`, SIGHUP is none of them."""
    return [n for n in INTERRUPTING if n != signal.SIGHUP or signal.getsignal(n) is not signal.SIG_IGN]


@contextmanager
def block_signals(numbers: Sequence[int] = OF_TERMINALS) -> Iterator[None]:
    """Keep signals from processes that are started in this block. They reach them too, but the parent ends them.

    May be used in any thread.
    """
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # otherwise the first process starts it, which unblocks signals in Python 3.11
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore(numbers: Sequence[int] = OF_TERMINALS) -> None:
    """Ignore signals in this process, whose parent ends it. multiprocessing ends a daemon by SIGTERM."""
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


def signal_name(status: int) -> str:
    """Return the name of the signal that ended a process, given its exit status as multiprocessing tells it (< 0)."""
    try:
        return signal.Signals(-status).name
    except ValueError:  # most of the real-time signals have no name
        return f"signal {-status}"
