"""Processes of `supple` that begin at once and can really be killed: forked from one that has imported everything.

So are the workers of comparisons, by a server of `multiprocessing`, in place of the new processes that import all anew.
"""

import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import psutil

LIMIT = 180.0  # seconds, after which a process is taken to hang
SLOW = (
    *("torch._dynamo", "mujoco", "gymnasium.envs.mujoco", "torch.utils.tensorboard", "transformers"),
    *("matplotlib.pyplot", "supple.engine.runs", "supple.scripts.train", "supple.scripts.resume"),
    *("supple.scripts.compare", "supple.scripts.report", "supple.scripts.cli.training"),
    *("supple.tracks.language", "supple.tracks.vision"),
    *("supple.agents.dqn.agent", "supple.agents.sac.agent", "supple.agents.ppo.agent", "ale_py"),
)
CHANGES = {"os.mkdir", "os.link", "os.rename", "os.remove", "os.rmdir", "os.truncate", "shutil.rmtree"}
SERVER: Any = forkserver._forkserver  # type: ignore[attr-defined]
DEAF = {signal.SIGINT, signal.SIGTERM}


@dataclass
class Forked:
    """A process that was begun here, and the file with what it says to stderr."""

    pid: int
    errors: Path

    def wait(self, limit: float = LIMIT) -> int | None:
        """Return its exit code, negative for a signal, once it ends; None where it does not within so many seconds."""
        until = time.monotonic() + limit
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() >= until:
                return None
            time.sleep(0.005)

    def read_errors(self) -> list[str]:
        """Return what it said to stderr, line by line."""
        return self.errors.read_text().splitlines()


def find_workers() -> list[psutil.Process]:
    """Return the processes in which comparisons train their runs."""
    return psutil.Process(SERVER._forkserver_pid).children()


def import_everything() -> None:
    """Import what commands need, here once for all of them, and in the server once for their workers."""
    multiprocessing.set_forkserver_preload([*SLOW, "supple.experiments.queue.workers"])
    SERVER.ensure_running()
    SERVER.ensure_running = lambda: None  # which could not wait for it in a forked process
    for name in SLOW:
        with contextlib.suppress(ImportError):  # an extra
            importlib.import_module(name)
    of_server = multiprocessing.get_context("forkserver")
    multiprocessing.get_context = lambda method=None: of_server  # type: ignore[assignment,misc]


def start(words: list[str], errors: Path, die_at: int = 0, folder: Path | None = None) -> Forked:
    """Begin `supple WORDS`. die_at: it kills itself right before its n-th change of a file or opening of one in
    `folder`."""
    from supple.scripts.main import main

    signal.pthread_sigmask(signal.SIG_BLOCK, DEAF)
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, DEAF)
        return Forked(child, errors)
    code = 70
    try:
        for stream, name in ((1, os.devnull), (2, str(errors))):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        sys.argv = ["supple", *words]
        if die_at:
            sys.addaudithook(make_killing_hook(die_at, str(folder)))
        for number in DEAF:  # until the command listens itself
            signal.signal(number, lambda number, _: os._exit(128 + number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, DEAF)
        main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def make_killing_hook(n: int, folder: str) -> Callable[[str, tuple[object, ...]], None]:
    """Return an audit hook that kills the process right before the n-th change."""
    left = n

    def hook(event: str, args: tuple[object, ...]) -> None:
        nonlocal left
        if event in CHANGES or (event == "open" and str(args[0]).startswith(folder)):
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    return hook
