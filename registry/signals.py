"""The signals that interrupt a program, on every system, and processes that leave them to their parent."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

NAMES = ("SIGINT", "SIGHUP", "SIGBREAK")  # SIGBREAK is of Windows: Ctrl-Break
OF_TERMINALS = tuple(int(getattr(signal, name)) for name in NAMES if hasattr(signal, name))  # for all its processes
INTERRUPTING = (*OF_TERMINALS, int(signal.SIGTERM))
HANGUP = getattr(signal, "SIGHUP", None)  # of a terminal that closes or a connection that ends; not on Windows


def interrupting_signals() -> list[int]:
    """Return the signals that should interrupt this process. Under `nohup`, SIGHUP is none of them."""
    return [n for n in INTERRUPTING if n != HANGUP or signal.getsignal(n) is not signal.SIG_IGN]


@contextmanager
def block_signals(numbers: Sequence[int] = OF_TERMINALS) -> Iterator[None]:
    """Keep signals from processes that are started in this block. They reach them too, but the parent ends them.

    The processes call `ignore` first, which is all that Windows has. May be used in any thread.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
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
