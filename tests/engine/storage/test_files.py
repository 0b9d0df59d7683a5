"""Locks on folders and atomic folders, also on systems without locks or links."""

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from supple.engine.storage import files
from supple.engine.storage.signed_json import start_folder


def counted(folder: Path, turns: int = 20) -> None:
    """Add 1 to the number in a file, which is wrong in the end if two processes do it at the same time."""
    for _ in range(turns):
        with files.lock_folder(folder):
            number = int((folder / "number").read_text())
            threading.Event().wait(0.0002)
            (folder / "number").write_text(str(number + 1))


@pytest.mark.parametrize("windows", [False, True])
def test_processes_lock_a_folder_one_after_another_and_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, windows: bool
) -> None:
    """Windows opens no folders, and removes no file that is open."""
    real = os.open

    def opened(name: str | Path, flags: int, *rest: int, **more: int) -> int:
        if os.path.isdir(name):
            raise PermissionError(errno.EACCES, "Permission denied", str(name))
        return real(name, flags, *rest, **more)

    if windows:
        monkeypatch.setattr(os, "open", opened)
    (tmp_path / "number").write_text("0")
    crowd = [threading.Thread(target=counted, args=(tmp_path,)) for _ in range(4)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    assert (tmp_path / "number").read_text() == "80"
    assert [path.name for path in tmp_path.iterdir()] == ["number"]


def test_the_lock_of_a_killed_process_does_not_count_as_a_file_of_another_run(tmp_path: Path) -> None:
    (tmp_path / files.LOCK).touch()
    start_folder(tmp_path, "config.json", {"a": 1})
    assert (tmp_path / "config.json").is_file()


def test_a_file_system_without_locks_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> bool:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(files, "lock_descriptor", none)
    with files.lock_folder(tmp_path), files.lock_folder(tmp_path):
        assert list(tmp_path.iterdir()) == []


def test_an_atomic_folder_appears_only_if_its_process_may_still_write(tmp_path: Path) -> None:
    allowed = [True, False]

    @contextmanager
    def writing() -> Iterator[None]:
        if not allowed.pop(0):
            raise PermissionError("taken over")
        yield

    (tmp_path / "model").mkdir()
    (tmp_path / "model/theirs").touch()
    with pytest.raises(PermissionError, match="taken over"), files.atomic_folder(tmp_path / "model", writing) as folder:
        (folder / "mine").touch()
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == ["model", "model/theirs"]


def test_two_writers_of_one_folder_have_separate_temporary_folders(tmp_path: Path) -> None:
    names = []
    for _ in range(2):
        with files.atomic_folder(tmp_path / "model") as folder:
            names.append(folder.name)
    assert len(set(names)) == 2


def test_replacing_a_file_does_not_change_its_hard_links(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    for name in ("a.json", "a.json.tmp"):
        os.link(tmp_path / "mine", tmp_path / name)
    files.replace(tmp_path / "a.json", b"new")
    assert (tmp_path / "mine").read_text() == "mine"
    assert (tmp_path / "a.json").read_text() == "new"


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_a_folder_or_link_in_the_place_of_a_file_is_not_removed(tmp_path: Path, kind: str) -> None:
    way = tmp_path / "a.json.tmp"
    {"pipe": os.mkfifo, "link": lambda path: path.symlink_to("b"), "folder": Path.mkdir}[kind](way)
    before = way.lstat()
    with pytest.raises(files.NotPlain, match=r"a\.json\.tmp: "):
        files.replace(tmp_path / "a.json", b"new")
    assert way.lstat() == before


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "seed-0").touch()
    for folder in (tmp_path / "seed-0", tmp_path / "seed-0/none"):
        with pytest.raises(files.NotPlain, match=r"seed-0: not a folder$"):
            files.make_folder(folder)
