"""Work in copies of this process: results in order, errors, and no process left behind."""

import os
import signal
import time
from pathlib import Path

import pytest

from supple.registry.errors import RunError
from supple.reports.processes import map_in_processes


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})


def test_results_come_in_the_order_of_the_items() -> None:
    def work(item: int) -> tuple[int, int]:
        time.sleep(0.1 if item == 0 else 0)
        return item, os.getpid()

    found = list(map_in_processes(work, range(5)))
    assert [item for item, _ in found] == list(range(5))
    assert os.getpid() not in {pid for _, pid in found}


def test_an_error_in_one_process_is_raised_and_ends_the_others(tmp_path: Path) -> None:
    def work(item: int) -> None:
        (tmp_path / str(os.getpid())).touch()
        if item:
            raise ValueError("line 7")
        time.sleep(20)

    started = time.monotonic()
    with pytest.raises(ValueError, match="line 7"):
        list(map_in_processes(work, [1, 0, 0]))
    assert time.monotonic() - started < 10
    time.sleep(0.2)
    for child in tmp_path.iterdir():
        status = Path(f"/proc/{child.name}/stat")
        assert not status.exists() or status.read_text().split()[2] == "Z"


def test_a_process_that_dies_is_reported() -> None:
    def work(item: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(RunError, match="died"):
        list(map_in_processes(work, [0, 1]))
