"""Runs of agents in processes of their own, which can be killed, and comparisons of them."""

import itertools
import os
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from tests.processes import alive, die_when, ended, wait_until


@pytest.fixture(scope="session", autouse=True)
def few_rows() -> Iterator[None]:
    """Measure DQN and SAC on 16 rows of their memory; on their own 256, that would take most of the time of a run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("supple.agents.offpolicy.experience.PROBE_ROWS", 16)
        yield


@pytest.fixture(scope="module", autouse=True)
def _forget_environments() -> Iterator[None]:
    """Take back the environments of their own that the tests of a module register."""
    before = {*gym.registry}
    yield
    for name in gym.registry.keys() - before:
        if not isinstance(gym.registry[name].entry_point, str):
            del gym.registry[name]


class Nursery:
    """Processes of `supple`, one at a time."""

    def __init__(self, folder: Path, process: Callable[..., int]) -> None:
        self.folder, self.process = folder, process
        self.errors, self.pid = folder / "errors", 0

    def start(self, *args: object, first: Callable[[], object] = list) -> int:
        """Start `supple ARGS`, and return its process id. `first` is called in it before all else."""
        self.pid = self.process([str(arg) for arg in args], self.errors, first)
        return self.pid

    def wait(self) -> int:
        """Return the exit code of the process, negative for a signal."""
        return ended(self.pid)

    def run(self, *args: object, die_at: int = 0, first: Callable[[], object] = list) -> int:
        """Start `supple ARGS`, and return its exit code. die_at: it kills itself at its n-th change of a file."""
        changes = itertools.count(1)
        if die_at:
            first = partial(die_when, lambda: next(changes) == die_at, str(self.folder))
        self.start(*args, first=first)
        return self.wait()

    def killed(self, words: Sequence[object], run: Path, each: int) -> int:
        """Make a run by the command `words`, which is killed before a change of a file, each time about so many changes
        later, until it gets through. Return the number of kills."""
        moments, kills = random.Random(0), 0
        while True:
            args = ["resume", run] if (run / "config.json").exists() else [*words, "--out", run]
            if (code := self.run(*args, die_at=1 + each * kills + moments.randrange(each))) == 0:
                return kills
            assert code == -signal.SIGKILL, self.stderr()
            kills += 1

    def kill_parent(self, pid: int) -> int:
        """Kill a process that was started here, and return the number of its workers, which have ended then, too."""
        workers = children(pid)
        os.kill(pid, signal.SIGKILL)
        assert self.wait() == -signal.SIGKILL
        wait_until(lambda: not any(map(alive, workers)))
        return len(workers)

    def workers(self, pid: int) -> list[int]:
        """Return the processes in which a comparison that was started here trains."""
        return [child for child, command in children(pid).items() if "resource_tracker" not in command]

    def stderr(self) -> list[str]:
        """Return what the last process wrote to stderr, line by line."""
        return self.errors.read_text().splitlines()


def children(pid: int) -> dict[int, str]:
    """Return the child processes of a process: id → command line."""
    found = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found[int(child)] = Path(f"/proc/{child}/cmdline").read_text()
    return found


@pytest.fixture(scope="module")
def nursery(process: Any, tmp_path_factory: pytest.TempPathFactory) -> Nursery:
    return Nursery(tmp_path_factory.getbasetemp(), process)
