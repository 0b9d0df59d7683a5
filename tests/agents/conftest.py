"""Processes of `supple` that can be killed, started without waiting for PyTorch each time, and comparisons of runs.

Importing takes seconds, so this file, run as a script, is a nursery: it imports everything once and forks a
process for each command line that it is sent.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PROBE_ROWS = (
    16  # on which DQN and SAC are measured in the nursery; measuring on their own 256 would take most of the time
)


class Nursery:
    """Processes of `supple`, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = folder / "output.txt"
        command = [sys.executable, __file__]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, *args: object, die_at: int = 0) -> int:
        """Start `supple ARGS`, and return its process id. die_at: it kills itself at its n-th change of a file."""
        words = [str(arg) for arg in args]
        order = {"args": words, "die_at": die_at, "output": str(self.output), "folder": str(self.folder)}
        assert self.process.stdin
        assert self.process.stdout
        print(json.dumps(order), file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())

    def wait(self) -> int:
        """Return the exit code of the process, negative for a signal."""
        assert self.process.stdout
        return int(self.process.stdout.readline())

    def run(self, *args: object, die_at: int = 0) -> int:
        self.start(*args, die_at=die_at)
        return self.wait()

    def kill_parent(self, pid: int) -> int:
        """Kill a process that was started here, and return the number of its workers, which have ended then, too."""
        workers = children(pid)
        os.kill(pid, signal.SIGKILL)
        assert self.wait() == -signal.SIGKILL
        wait_until(lambda: not any(map(alive, workers)), 5)
        return len(workers)

    def workers(self, pid: int) -> list[int]:
        """Return the processes in which a comparison that was started here trains."""
        return [child for child, command in children(pid).items() if "spawn_main" in command]

    def wait_until(self, condition: Callable[[], object]) -> None:
        wait_until(condition)

    def stderr(self) -> list[str]:
        """Return what the last process wrote to stderr, line by line."""
        return Path(f"{self.output}.err").read_text().splitlines()


def children(pid: int) -> dict[int, str]:
    """Return the child processes of a process: id → command line."""
    found = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found[int(child)] = Path(f"/proc/{child}/cmdline").read_text()
    return found


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def serve() -> None:
    for slow in ("torch._dynamo", "mujoco", "gymnasium.envs.mujoco", "tensorboard.compat.proto.event_pb2"):
        importlib.import_module(slow)
    with contextlib.suppress(ImportError):  # an extra
        importlib.import_module("ale_py")
    import supple.agents.dqn.agent
    import supple.agents.sac.agent
    import supple.scripts.train
    from supple.scripts.cli.console import run
    from supple.scripts.main import dispatch

    supple.agents.offpolicy.experience.PROBE_ROWS = PROBE_ROWS
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        if (child := os.fork()) == 0:
            for stream, name in ((1, order["output"]), (2, order["output"] + ".err")):
                os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
            sys.argv = ["supple", *order["args"]]
            if order["die_at"]:
                sys.addaudithook(dying_at(order["die_at"], order["folder"]))
            run(dispatch)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def dying_at(n: int, folder: str) -> Callable[[str, tuple], None]:
    """Return an audit hook that kills the process before it opens or changes a file for the n-th time."""
    changes = {"os.mkdir", "os.link", "os.rename", "os.remove", "os.rmdir", "os.truncate", "shutil.rmtree"}
    left = n

    def hook(event: str, args: tuple) -> None:
        nonlocal left
        if event in changes or (event == "open" and str(args[0]).startswith(folder)):
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    return hook


@pytest.fixture
def killed(process: Any, tmp_path: Path) -> Callable[..., None]:
    """`killed(words, run, *steps)` makes a run by the command `words`, which is killed whenever it has saved one of
    these steps, and brings it to its end."""
    errors = tmp_path / "errors"

    def begun(words: list[str], run: Path) -> int:
        return int(process(["resume", str(run)] if run.exists() else [*words, "--out", str(run)], errors))

    def ended(child: int) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def finish(words: list[str], run: Path, *steps: int) -> None:
        for step in steps:
            child = begun(words, run)
            wait_until((run / "checkpoints" / f"{step:012}").exists)
            os.kill(child, signal.SIGKILL)
            assert ended(child) == -signal.SIGKILL, errors.read_text()
        assert ended(begun(words, run)) == 0, errors.read_text()

    return finish


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path_factory.getbasetemp())
    yield nursery
    nursery.process.communicate()


if __name__ == "__main__":
    serve()
