"""Work in copies of this process: results in order, errors, and no process left behind."""

import os
import signal
from functools import partial
from pathlib import Path

import pytest

from supple.registry.errors import RunError
from supple.reports.processes import map_in_processes
from tests.processes import alive, wait_until


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})


def in_order(folder: Path, item: int) -> tuple[int, int]:
    if item == 0:
        wait_until((folder / "4").exists)
    (folder / str(item)).touch()
    return item, os.getpid()


def fail(folder: Path, item: int) -> None:
    (folder / str(os.getpid())).touch()
    if item:
        raise ValueError("line 7")
    signal.pause()


def die(item: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_results_come_in_the_order_of_the_items(tmp_path: Path) -> None:
    found = list(map_in_processes(partial(in_order, tmp_path), range(5)))
    assert [item for item, _ in found] == list(range(5))
    assert os.getpid() not in {pid for _, pid in found}


def test_an_error_in_one_process_is_raised_and_ends_the_others(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 7"):
        list(map_in_processes(partial(fail, tmp_path), [1, 0, 0]))
    wait_until(lambda: not any(alive(int(child.name)) for child in tmp_path.iterdir()))


def test_a_process_that_dies_is_reported() -> None:
    with pytest.raises(RunError, match="died"):
        list(map_in_processes(die, [0, 1]))
