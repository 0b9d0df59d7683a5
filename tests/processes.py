"""What tests of processes share: events are waited for, however busy the machine is."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

LONG = 600.0  # seconds; only what has gone wrong takes so long


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def alive(pid: int) -> bool:
    """Return whether a process runs, and is no zombie that nobody waits for."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def running(child: int) -> bool:
    """Return whether a child of this process has not ended yet; `ended` still says how it did."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def ended(child: int) -> int:
    """Wait for the end of a child of this process, and return its exit status, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_when(condition: Callable[[], object], within: str = "", number: int = 9) -> None:
    """Make this process kill itself at the first change of a file, or opening of one `within`, where it holds.

    With another signal such as SIGSTOP, it sends it to itself at each of them.

    A process that is watched and killed by another may have come to its end in between, on a busy machine.
    """
    changes = {"os.mkdir", "os.link", "os.rename", "os.remove", "os.rmdir", "os.truncate", "shutil.rmtree"}

    def look(event: str, args: tuple) -> None:
        if (event in changes or (event == "open" and str(args[0]).startswith(within))) and condition():
            os.kill(os.getpid(), number)

    sys.addaudithook(look)


def die_after(seconds: float) -> None:
    """Let this process be killed when it has computed for so long, in the middle of anything, on any machine."""
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)


def stop_at(step: int, error: type[BaseException] = KeyboardInterrupt) -> Callable[[int], None]:
    """Return a `progress` that ends a run in this process once it has come to a step, as a kill does."""

    def progress(now: int) -> None:
        if now >= step:
            raise error

    return progress
