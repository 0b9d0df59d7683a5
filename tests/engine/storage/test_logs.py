"""Logs: only one process appends to them, and it notices if another one has changed them."""

import os
from pathlib import Path

import pytest

from supple.engine.storage.logs import FULL, begin, require_length
from supple.registry.errors import RunError


def test_lines_wait_in_memory_until_they_are_flushed(tmp_path: Path) -> None:
    log = begin(file := tmp_path / "metrics.jsonl", 0)
    assert not log.add(b"1" * (FULL - 1))
    assert file.read_bytes() == b""
    assert log.add(b"\n")
    log.flush()
    assert file.stat().st_size == log.length == FULL
    log.add(b"lost")
    log.close()
    assert file.stat().st_size == FULL


def test_a_process_that_had_a_log_open_before_cannot_write_to_the_new_one(tmp_path: Path) -> None:
    former = begin(file := tmp_path / "metrics.jsonl", 0)
    former.add(b"one\ntwo\n")
    former.flush()
    successor = begin(file, 4)
    assert file.read_bytes() == b"one\n"
    os.write(former._stream.fileno(), b"more\n")  # whatever it does
    successor.add(b"2\n")
    successor.flush()
    assert file.read_bytes() == b"one\n2\n"
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]
    former.add(b"more\n")
    with pytest.raises(RunError, match="it has 6 bytes, but this process wrote 8: this log was truncated or replaced"):
        former.flush()


def test_a_hard_link_of_a_log_keeps_its_contents(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    os.link(tmp_path / "mine", tmp_path / "metrics.jsonl")
    begin(tmp_path / "metrics.jsonl", 0)
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_leftover_temporary_log_may_be_a_hard_link(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    os.link(tmp_path / "mine", tmp_path / "metrics.jsonl.tmp")
    begin(tmp_path / "metrics.jsonl", 0)
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_missing_log_is_named_and_not_made_again(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"metrics\.jsonl: this log was removed or renamed$"):
        begin(tmp_path / "metrics.jsonl", 7)
    assert not [*tmp_path.iterdir()]


def test_a_log_that_cannot_be_copied_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file := tmp_path / "metrics.jsonl").write_text("one\ntwo\n")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("supple.engine.storage.files.sync", full)
    with pytest.raises(OSError, match="No space"):
        begin(file, 4)
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]
    assert file.read_text() == "one\ntwo\n"


def test_lines_of_another_program_are_noticed(tmp_path: Path) -> None:
    log = begin(file := tmp_path / "metrics.jsonl", 0)
    with file.open("a") as other:
        other.write("x\n")
    log.add(b"1\n")
    with pytest.raises(RunError, match="whose first 0 bytes are the run's"):
        log.flush()
    file.unlink()
    with pytest.raises(RunError, match="removed or renamed"):
        require_length(file, 0, "this process wrote")


def test_lines_that_could_not_be_written_are_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = begin(tmp_path / "metrics.jsonl", 0)
    log.add(b"1\n")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            log.flush()
    log.flush()
    assert log.length == 0
