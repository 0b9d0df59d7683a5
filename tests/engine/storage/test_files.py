"""Locks on folders, and atomic folders."""

import errno
import threading
from pathlib import Path

import pytest

from supple.engine.storage import files


def counted(folder: Path, turns: int = 20) -> None:
    """Add 1 to the number in a file, which is wrong in the end if two processes do it at the same time."""
    for _ in range(turns):
        with files.lock_folder(folder):
            number = int((folder / "number").read_text())
            threading.Event().wait(0.0002)
            (folder / "number").write_text(str(number + 1))


def test_processes_lock_a_folder_one_after_another_and_leave_no_file(tmp_path: Path) -> None:
    (tmp_path / "number").write_text("0")
    crowd = [threading.Thread(target=counted, args=(tmp_path,)) for _ in range(4)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    assert (tmp_path / "number").read_text() == "80"
    assert [path.name for path in tmp_path.iterdir()] == ["number"]


def test_a_file_system_without_locks_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> bool:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(files, "lock_descriptor", none)
    with files.lock_folder(tmp_path), files.lock_folder(tmp_path):
        assert list(tmp_path.iterdir()) == []


def test_two_writers_of_one_folder_have_separate_temporary_folders(tmp_path: Path) -> None:
    names = []
    for _ in range(2):
        with files.atomic_folder(tmp_path / "model") as folder:
            names.append(folder.name)
    assert len(set(names)) == 2
