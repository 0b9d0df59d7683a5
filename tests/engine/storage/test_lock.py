"""Only one process at a time trains a run, on machines that see each other's locks and on those that do not."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from supple.engine.storage.lock import FILE, TOUCH, Held, Lock, Lost, take_over

HOLD = """
import os, sys
from pathlib import Path
from supple.engine.storage.lock import Lock
with Lock(Path(sys.argv[1])):
    if os.fork() == 0:
        sys.stdin.read()
        os._exit(0)
    print("held", flush=True)
    sys.stdin.read()
"""
ELSEWHERE = "process 7 on elsewhere"


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock, and has a child."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def elsewhere(folder: Path, silent: float) -> None:
    (folder / FILE).write_text(ELSEWHERE)
    os.utime(folder / FILE, (time.time() - silent,) * 2)


def test_a_lock_is_released_and_its_file_emptied_at_the_end(tmp_path: Path) -> None:
    for _ in range(2):
        with Lock(tmp_path) as held:
            held.check()
            assert (tmp_path / FILE).read_text() == f"process {os.getpid()} on {os.uname().nodename}"
        assert (tmp_path / FILE).read_text() == ""


@pytest.mark.slow
def test_a_second_process_is_refused_in_a_line_that_names_the_first_until_that_is_killed_though_its_child_lives(
    tmp_path: Path, owner: subprocess.Popen[str]
) -> None:
    owner.send_signal(signal.SIGSTOP)
    for refused in (Lock, take_over):
        with pytest.raises(Held, match=f"process {owner.pid} on {os.uname().nodename} is training this run"):
            refused(tmp_path)
    owner.send_signal(signal.SIGKILL)
    with Lock(tmp_path, patience=2) as held:
        held.check()


@pytest.mark.parametrize(("silent", "free"), [(500, False), (700, True), (-500, False), (-700, True)])
def test_a_free_lock_that_names_another_machine_counts_as_held_for_ten_minutes(
    tmp_path: Path, silent: float, free: bool
) -> None:
    elsewhere(tmp_path, silent)
    if not free:
        words = f"{ELSEWHERE} was training this run 500 seconds ago.*--take-over"
        with pytest.raises(Held, match=words) as _kept:  # with the lock, which therefore must be free
            Lock(tmp_path)
        take_over(tmp_path)
    with Lock(tmp_path):
        pass


def test_an_owner_whose_run_was_taken_over_notices_and_leaves_the_file(tmp_path: Path) -> None:
    with Lock(tmp_path) as held:
        elsewhere(tmp_path, 0)
        with pytest.raises(Held, match=f"{ELSEWHERE} has taken over this run, so this one stops"):
            held.check()
    assert (tmp_path / FILE).read_text() == ELSEWHERE


def test_the_file_is_touched_once_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    with Lock(tmp_path) as held:
        for later, touched in ((TOUCH / 2, False), (1.5 * TOUCH, True), (2 * TOUCH, False)):
            os.utime(tmp_path / FILE, (1e9, 1e9))
            with monkeypatch.context() as patch:
                patch.setattr(time, "monotonic", lambda later=later: now + later)
                held.touch()
            assert ((tmp_path / FILE).stat().st_mtime > 1e9) == touched


def test_without_locks_of_the_file_system_the_file_alone_decides_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", none)
    with pytest.warns(UserWarning, match="has no locks"):
        held = Lock(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        held.check()
        (tmp_path / FILE).write_text("process 7 on " + os.uname().nodename)
        with pytest.raises(Held, match="--take-over"):
            Lock(tmp_path)
        take_over(tmp_path)
        Lock(tmp_path).release()


@pytest.mark.parametrize("remove", [lambda sweep: sweep.rename(sweep.with_name("other")), shutil.rmtree])
def test_a_folder_that_was_renamed_or_removed_is_named_and_not_made_again(tmp_path: Path, remove: object) -> None:
    (run := tmp_path / "sweep/seed-0/none").mkdir(parents=True)
    with Lock(run) as held:
        remove(tmp_path / "sweep")  # type: ignore[operator]
        with pytest.raises(Lost, match=r"sweep: this folder was removed or renamed during the training in it"):
            held.check()
    assert not (tmp_path / "sweep").exists()
