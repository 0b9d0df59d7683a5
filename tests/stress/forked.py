"""Processes of `supple` that begin at once and can really be killed: forked from one that has imported everything.

So are the workers of comparisons, by a server of `multiprocessing`, in place of the new processes that import all anew.
"""

import contextlib
import importlib
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import psutil
from small_runs import logs, weights

LIMIT = 300.0  # seconds, after which a process is taken to hang
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

    def wait(self) -> int | None:
        """Return its exit code, negative for a signal, once it ends; None where it hangs."""
        until = time.monotonic() + LIMIT
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


class Disturbed:
    """What is disturbed in a folder of its own: its kills, and what was wrong in the end."""

    def __init__(self, title: str, place: Path) -> None:
        self.draw, self.place, self.out = random.Random(title), place, place / "out"
        self.kills: list[str] = []
        self.wrong: list[str] = []

    def expect_end(self, process: Forked, *codes: int) -> int | None:
        """Wait for a process, and return its exit code, which is to be one of `codes`."""
        code = process.wait()
        if code is None:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            self.wrong.append("hung")
        elif code not in codes or any("Traceback" in line for line in process.read_errors()):
            self.wrong.append(f"exit code {code}: {' | '.join(process.read_errors())[-1500:]}")
        return code

    def expect_same(self, found: dict[str, Any], whole: dict[str, Any]) -> None:
        """Compare what `describe_folder` returned with that of what nobody disturbed."""
        for name in sorted(found.keys() | whole.keys()):
            if found.get(name) != whole.get(name):
                which = sorted({*found[name]} ^ {*whole[name]}) if name == "names" else ""
                self.wrong.append(f"other {name} {which}")


def has_failed(folder: Path) -> bool:
    """Return whether a run in a folder failed, because its worker was killed."""
    return any('"failed"' in file.read_text() for file in folder.rglob("outcome.json"))


def describe_folder(folder: Path) -> dict[str, Any]:
    """Return what must be the same in the end: the names of files, and the logs and tensors of every run."""
    runs = [file.parent for file in sorted(folder.rglob("checkpoints"))]
    found: dict[str, Any] = {f"logs of {run.relative_to(folder)}": logs(run) for run in runs}
    found |= {f"tensors of {run.relative_to(folder)}": weights(run) for run in runs}
    files = (str(file.relative_to(folder)) for file in folder.rglob("*") if file.parent.name != "tensorboard")
    return {**found, "names": sorted(files)}


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
