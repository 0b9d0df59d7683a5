"""Work in copies of this process: results in order, errors, and no process left behind."""

import os
import signal
from pathlib import Path

import pytest

from supple.registry.errors import RunError
from supple.reports.processes import map_in_processes
from tests.processes import alive, wait_until


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})


@pytest.mark.slow
def test_results_come_in_the_order_of_the_items(tmp_path: Path) -> None:
    def work(item: int) -> tuple[int, int]:
        if item == 0:
            wait_until((tmp_path / "4").exists)
        (tmp_path / str(item)).touch()
        return item, os.getpid()

    found = list(map_in_processes(work, range(5)))
    assert [item for item, _ in found] == list(range(5))
    assert os.getpid() not in {pid for _, pid in found}


def test_an_error_in_one_process_is_raised_and_ends_the_others(tmp_path: Path) -> None:
    def work(item: int) -> None:
        (tmp_path / str(os.getpid())).touch()
        if item:
            raise ValueError("line 7")
        signal.pause()

    with pytest.raises(ValueError, match="line 7"):
        list(map_in_processes(work, [1, 0, 0]))
    wait_until(lambda: not any(alive(int(child.name)) for child in tmp_path.iterdir()))


def test_a_process_that_dies_is_reported() -> None:
    def work(item: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(RunError, match="died"):
        list(map_in_processes(work, [0, 1]))
